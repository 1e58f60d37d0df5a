module github.com/go-sluice/sluice/bench

go 1.26.8

require (
	github.com/go-sluice/sluice v0.0.0
	go.uber.org/ratelimit v0.3.1
	golang.org/x/time v0.16.0
)

require (
	github.com/benbjohnson/clock v1.3.0 // indirect
	github.com/google/btree v1.1.3 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)

replace github.com/go-sluice/sluice => ../

package sluice_test

import (
	"fmt"
	"log"
	"math"
	"net/http"
	"strconv"

	"github.com/go-sluice/sluice"
	"github.com/go-sluice/sluice/config"
	"github.com/go-sluice/sluice/htb"
)

func Example() {
	tree, err := config.Load("config/tree.yaml")
	if err != nil {
		log.Fatal(err) // every mistake in the file, with its line and what to write
	}
	d, err := tree.Allow(sluice.Now(), 1, "free", "alice") // cost 1, class free/alice
	switch {
	case err != nil:
		log.Print(err) // no such class, or a cost that can never pass
	case d.Allowed:
		fmt.Println("go ahead, paid for by", d.Lender())
	default:
		fmt.Println("no:", d.RefusedBy(), d.Reason, "retry in", d.RetryAfter)
	}
	// Output: go ahead, paid for by free/alice
}

// A middleware: a class per user below "free", and 429 with the time to retry.
func Example_middleware() {
	tree, err := config.Load("config/tree.yaml")
	if err != nil {
		log.Fatal(err)
	}
	limit := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			user, _, _ := r.BasicAuth()
			d, err := tree.Allow(sluice.Now(), 1, "free", user)
			switch {
			case err != nil: // an empty or overlong name
				http.Error(w, err.Error(), http.StatusBadRequest)
			case !d.Allowed:
				w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(d.RetryAfter.Seconds()))))
				http.Error(w, "too many requests", http.StatusTooManyRequests)
			default:
				next.ServeHTTP(w, r)
			}
		})
	}
	http.Handle("/", limit(http.NotFoundHandler()))
}

// A cost that is known only afterwards: charge the most it could be, settle to what
// it was. A handle spares the lookup.
func Example_settle() {
	tree, err := config.Load("config/tree.yaml")
	if err != nil {
		log.Fatal(err)
	}
	acme, err := tree.Leaf("acme")
	if err != nil {
		log.Fatal(err)
	}
	hold, d, err := acme.Hold(sluice.Now(), 50) // at most 50
	if err != nil || !d.Allowed {
		return
	}
	used := int64(12) // what the work turned out to cost
	if err := hold.Settle(sluice.Now(), used); err != nil {
		log.Print(err)
	}
	var row htb.Stats
	for _, row = range tree.Stats(sluice.Now()) {
		if row.Path == "acme" {
			fmt.Println("acme got", row.Gets)
		}
	}
	// Output: acme got 12
}

// A busy leaf of a service with many cores: units are taken in advance, and most
// decisions need no lock. What that gives up is said at [htb.Leased].
func Example_lease() {
	tree, err := config.Load("config/tree.yaml")
	if err != nil {
		log.Fatal(err)
	}
	leaf, err := tree.Leaf("acme")
	if err != nil {
		log.Fatal(err)
	}
	acme, err := leaf.Leased(htb.Lease{}) // once, for all goroutines
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		if d, err := acme.Allow(sluice.Now(), 1); err == nil && d.Allowed {
			fmt.Println("go ahead, paid for by", d.Lender())
		}
	}
	// Output:
	// go ahead, paid for by acme
	// go ahead, paid for by acme
	// go ahead, paid for by acme
}

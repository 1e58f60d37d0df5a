package config

import _ "embed"

//go:generate go test -run TestSchemaFile -update .

//go:embed tree.schema.json
var schema []byte

// Schema returns the JSON Schema (draft 2020-12) of tree files, for editors. It
// is made from the table of keys that the reader goes by, when tests are run with
// -update, so that programs need not carry what makes it. What no schema can see,
// such as a ceil below its rate, only [Parse] refuses.
func Schema() []byte { return append([]byte(nil), schema...) }

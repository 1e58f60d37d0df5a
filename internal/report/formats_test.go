package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-sluice/sluice/internal/result"
)

func TestCSV(t *testing.T) {
	run := sample()
	var b bytes.Buffer
	require.NoError(t, CSV(&b, run))
	golden(t, "csv", b.String())
	records, err := csv.NewReader(&b).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"time", "class", "wants", "gets", "fair"}, records[0])
	require.Len(t, records, 1+2*len(run.Rows))
	for i, r := range records[1:] {
		require.Equal(t, run.Rows[i%len(run.Rows)].Path, r[1], "names come back as they were")
	}
}

// Names that mean something in CSV are quoted; times do not gather noise.
func TestCSVOddNames(t *testing.T) {
	names := []string{`a,b`, `"`, ` lead`, `line
break`, `=1+1`, `#x`, "長", ""}
	run := &result.Run{Step: 0.1}
	for _, name := range names {
		run.Rows = append(run.Rows, result.Row{Path: name, Series: result.Series{Wants: make([]int64, 4), Gets: make([]int64, 4), Fair: make([]float64, 4)}})
	}
	var b bytes.Buffer
	require.NoError(t, CSV(&b, run))
	require.Contains(t, b.String(), "\n0.3,\"a,b\",0,0,0\n")
	records, err := csv.NewReader(&b).ReadAll()
	require.NoError(t, err)
	for i, r := range records[1:] {
		require.Equal(t, names[i%len(names)], r[1])
	}
}

func TestCSVEmpty(t *testing.T) {
	var b strings.Builder
	require.NoError(t, CSV(&b, &result.Run{}))
	require.Equal(t, "time,class,wants,gets,fair\n", b.String())
}

func TestJSON(t *testing.T) {
	run := sample()
	var b bytes.Buffer
	require.NoError(t, JSON(&b, run))
	golden(t, "json", b.String())
	var back jsonRun
	require.NoError(t, json.Unmarshal(b.Bytes(), &back))
	require.Len(t, back.Classes, len(run.Rows))
	for _, r := range run.Rows {
		c, ok := back.Classes[r.Path]
		require.True(t, ok, r.Path)
		require.Equal(t, []int64{r.Wants, r.Gets, r.Rejected, r.Own, r.Borrows, r.Lends}, []int64{c.Wants, c.Gets, c.Rejected, c.Own, c.Borrows, c.Lends})
		require.InDelta(t, r.Fair, c.Fair, 0.0005)
		require.Equal(t, r.Series.Wants, c.Series.Wants)
	}
}

// Of an empty run everything is there, empty: nobody has to look out for null.
func TestJSONEmpty(t *testing.T) {
	var b strings.Builder
	require.NoError(t, JSON(&b, &result.Run{Tree: "api", Mode: "police", Unit: "requests", Step: 1}))
	require.JSONEq(t, `{"tree": "api", "mode": "police", "seconds": 0, "step": 1, "unit": "requests", "classes": {}}`, b.String())
	b.Reset()
	require.NoError(t, JSON(&b, &result.Run{Rows: []result.Row{{Path: "global"}}}))
	require.NotContains(t, b.String(), "null")
	require.Contains(t, b.String(), `"series": {`)
}

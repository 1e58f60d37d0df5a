package trace

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func FuzzAccessLog(f *testing.F) {
	f.Add([]byte(logOf("10:05:03", "10:05:01", "10:05:03", "10:09:00", "10:00:00")), uint8(0), uint16(60), uint8(0))
	f.Add([]byte("\ufeff"+logOf("10:05:03", "10:05:03", "10:05:03")), uint8(1), uint16(0), uint8(2))
	f.Add([]byte("h - a [b [31/Dec/2261:23:59:60 -2359] \"GET http://a/b?c \\\\\" 200 9223372036854775807 x\r\n\r\n"), uint8(5), uint16(1), uint8(1))
	f.Add([]byte("x - -\n"), uint8(2), uint16(1), uint8(1))
	f.Fuzz(func(t *testing.T, text []byte, by uint8, reorder uint16, held uint8) {
		o := Options{By: By(by % 3), Cost: CostBy(by / 3 % 2), Reorder: time.Duration(reorder) * time.Second, MaxHeld: int(held)}
		checkAny(t, text, o)
	})
}

func FuzzCSV(f *testing.F) {
	f.Add([]byte("time,class,cost\n0,a,1\n5.5,b/c,2\n0.000000001,%2f/%,9\n"), uint16(2), uint8(0))
	f.Add([]byte("\"cost\",time,\"class\"\r\n1,0,\"a,\"\"/b\"\r\n\n3,9223372035.9999999999,x\n2,.5,y"), uint16(0), uint8(3))
	f.Add([]byte("time,class,cost,time\n"), uint16(0), uint8(1))
	f.Fuzz(func(t *testing.T, text []byte, reorder uint16, held uint8) {
		o := Options{Reorder: time.Duration(reorder) * time.Millisecond, MaxHeld: int(held)}
		checkAny(t, text, o)
		checkAny(t, append([]byte("time,class,cost\n"), text...), o)
	})
}

// checkAny reads any bytes, and checks the laws if they are a trace.
func checkAny(t *testing.T, text []byte, o Options) {
	src, err := newLines(t.Context(), "T", bytes.NewReader(text))
	if err != nil {
		return
	}
	s, err := scan(src, o)
	if err != nil {
		require.NotEmpty(t, err.Error())
		require.Zero(t, s)
		return
	}
	src, err = newLines(t.Context(), "T", bytes.NewReader(text))
	require.NoError(t, err)
	r, err := newReader(src, s, o)
	require.NoError(t, err)
	var before time.Duration
	var n int64
	for ; ; n++ {
		req, ok, err := r.Next()
		require.NoError(t, err)
		if !ok {
			break
		}
		require.GreaterOrEqual(t, req.At, before)
		require.LessOrEqual(t, req.At, s.Span)
		require.GreaterOrEqual(t, req.Cost, int64(1))
		require.NotEmpty(t, req.Class)
		for _, name := range req.Class {
			require.NotEmpty(t, name)
		}
		before = req.At
	}
	require.Equal(t, s.Lines, n)
	require.Equal(t, s.First.UnixNano(), r.origin)
}

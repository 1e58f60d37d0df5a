package trace

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// benchmarkLog writes a log of the shape that servers write: combined format,
// 2000 clients, 200 lines a second, every line up to 4 s late.
func benchmarkLog(b *testing.B, count int) string {
	b.Helper()
	begin := time.Date(2015, 5, 17, 10, 5, 3, 0, time.UTC)
	var text []byte
	for i := range count {
		at := begin.Add(time.Duration(i/200)*time.Second - time.Duration(i*7%5)*time.Second)
		text = fmt.Appendf(text, "198.18.%d.%d - - [%s] \"GET /images/%d/x.png HTTP/1.1\" 200 %d \"-\" \"Mozilla/5.0 (X11; Linux)\"\n",
			i*31%2000/250, i*31%250, at.Format("02/Jan/2006:15:04:05 -0700"), i%97, i%50000)
	}
	path := filepath.Join(b.TempDir(), "access.log")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

func BenchmarkScanAccessLog(b *testing.B) {
	benchmarkScan(b, benchmarkLog(b, 200_000), Options{Cost: CountBytes, Reorder: 2 * time.Minute})
}

func BenchmarkScanCSV(b *testing.B) {
	benchmarkScan(b, benchmarkCSV(b, 200_000), Options{Reorder: 2 * time.Minute})
}

func benchmarkCSV(b *testing.B, count int) string {
	b.Helper()
	text := []byte("time,class,cost\n")
	for i := range count {
		text = fmt.Appendf(text, "%d.%06d,free/client%d,%d\n", i/200, i%200*5000, i*31%2000, 1+i%4000)
	}
	path := filepath.Join(b.TempDir(), "trace.csv")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

func benchmarkScan(b *testing.B, path string, o Options) {
	b.ReportAllocs()
	var lines int64
	for b.Loop() {
		s, err := Scan(b.Context(), path, o)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(s.Bytes)
		lines += s.Lines
	}
	b.ReportMetric(float64(lines)/b.Elapsed().Seconds(), "lines/s")
}

func BenchmarkNextAccessLog(b *testing.B) {
	benchmarkNext(b, benchmarkLog(b, 200_000))
}

func BenchmarkNextCSV(b *testing.B) {
	benchmarkNext(b, benchmarkCSV(b, 200_000))
}

func benchmarkNext(b *testing.B, path string) {
	o := Options{Reorder: 2 * time.Minute}
	s, err := Scan(b.Context(), path, o)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(s.Bytes)
	var lines int64
	for b.Loop() {
		r, err := Open(path, s, o)
		if err != nil {
			b.Fatal(err)
		}
		for {
			_, ok, err := r.Next()
			if err != nil {
				b.Fatal(err)
			}
			if !ok {
				break
			}
			lines++
		}
		r.Close()
	}
	b.ReportMetric(float64(lines)/b.Elapsed().Seconds(), "lines/s")
}

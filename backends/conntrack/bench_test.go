package conntrack_test

import (
	"testing"

	"github.com/vipkit/vipkit/backends/conntrack"
)

// What a pass costs besides reading: 100,000 flows of others, 5,000 Services.
func BenchmarkPass(b *testing.B) {
	for _, full := range []bool{false, true} {
		name := "one endpoint changed"
		w := many()
		if full {
			name = "full"
		} else {
			w = w.done().eps("10.180.0.2", "10.180.0.3")
		}
		d := w.delta()
		b.Run(name, func(b *testing.B) {
			c := conntrack.New(conntrack.Options{Table: &foreign{n: 100_000}})
			b.ReportAllocs()
			for b.Loop() {
				if err := c.Sync(b.Context(), d); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

package conntrack_test

import (
	"context"
	"fmt"

	"github.com/vipkit/vipkit/backends/conntrack"
)

// Endpoint 10.180.0.1 was replaced by 10.180.0.2. What uses the first one goes; what
// is not ours stays, whatever port it uses.
func ExampleJudge() {
	w := newWorld().set(dns()).eps("10.180.0.1").done()
	delta := w.eps("10.180.0.2").delta()
	j := conntrack.NewJudge(delta, v4, nil)
	for _, f := range flows(
		"10.96.0.10:53>10.180.0.1:53",         // ClusterIP
		"10.96.0.10:53>10.180.0.2:53",         // ClusterIP
		"192.168.0.2:30053>10.180.0.1:53",     // NodePort
		"203.0.113.9:30053>203.0.113.9:30053", // somebody else's
	) {
		fmt.Println(f.Destination, "from", f.ReplySource, j.Stale(f))
	}
	// Output:
	// 10.96.0.10:53 from 10.180.0.1:53 true
	// 10.96.0.10:53 from 10.180.0.2:53 false
	// 192.168.0.2:30053 from 10.180.0.1:53 true
	// 203.0.113.9:30053 from 203.0.113.9:30053 false
}

// A proxy calls Sync by itself if it is given the Cleaner as its first consumer:
//
//	proxy.Options{Consumers: []proxy.Consumer{{Name: "conntrack", Syncer: conntrack.New(conntrack.Options{})}}}
func ExampleCleaner() {
	w := newWorld().set(dns()).eps("10.180.0.1").done()
	delta := w.eps().delta() // scaled to zero
	c := conntrack.New(conntrack.Options{
		Table: &fakeTable{flows: flows("10.96.0.10:53>10.180.0.1:53", "192.0.2.1:443>192.0.2.1:443")},
		OnPass: func(p conntrack.Pass) {
			fmt.Println(p.Family, "flows:", p.Flows, "deleted:", p.Deleted)
		},
	})
	if err := c.Sync(context.Background(), delta); err != nil {
		fmt.Println(err)
	}
	// Output:
	// IPv4 flows: 2 deleted: 1
}

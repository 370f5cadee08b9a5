package nftables

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// A client is what packets have written of one client of a Service port with ClientIP affinity.
type client struct {
	addr    netip.Addr
	id      uint32 // of the endpoint, see assignIDs: mostly the same in every layout
	timeout time.Duration
	expires time.Duration // from when it was read
}

// mostCarried is how many clients a table that is replaced takes along at most. They go through nft, in
// the transaction that has the whole table.
const mostCarried = 65536

// A carried is what a new map of clients begins with.
type carried struct {
	box     box
	clients []client
}

// carry reads the clients that a table knows which is to be replaced, where map and option still fit. What cannot be
// read is left behind: it is no reason to stop.
func (a *adoption) carry(found *contents) {
	left := mostCarried
	for name, info := range found.boxes {
		b, ok := privateBox(name, a.b.layout.affinityClients)
		if !ok || !b.dynamic || info != a.table.info(b) || left <= 0 {
			continue
		}
		clients, err := a.b.kernel.clients(a.table.family, a.b.opts.Name, b)
		if err != nil {
			continue
		}
		clients = slices.DeleteFunc(clients, func(c client) bool { return c.expires < time.Second || c.timeout < c.expires })
		clients = clients[:min(len(clients), b.size, left)]
		left -= len(clients)
		a.clients[name] = clients
	}
}

// carriedBy returns the clients that the boxes of a Service port begin with.
func (a *adoption) carriedBy(p *program) (out []carried) {
	for _, b := range p.boxes {
		if clients := a.clients[b.name]; len(clients) > 0 {
			out = append(out, carried{b, clients})
		}
	}
	return out
}

// clientText returns an element of a map of clients.
func clientText(c client) string {
	return fmt.Sprintf("%s timeout %ds expires %ds : %s", c.addr, c.timeout/time.Second, c.expires/time.Second, priorityText(c.id))
}

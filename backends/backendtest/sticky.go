package backendtest

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// A visit is the last endpoint that a client with affinity reached.
type visit struct {
	endpoint string // as [player.name] writes it
	sent     time.Time
}

// memory returns the visits of earlier sticky lines of the same flow.
func (p *player) memory(l line, v variant) map[string]visit {
	key := v.String() + " " + l.flow()
	if p.found[key] == nil {
		p.found[key] = map[string]visit{}
	}
	return p.found[key]
}

// affinity returns how long the plan wants clients to stay.
func (p *player) affinity(pk packets) time.Duration {
	port := p.world.plan.Trace(pk.packet(0)).Port
	if port == nil {
		return 0
	}
	return port.AffinityTimeout
}

// callSticky makes several connections from every client, which must all go to one
// endpoint.
func (c *caller) callSticky() {
	hasMoved := false
	for i := range c.packets.sources {
		before, ok := c.callAgain(i)
		if !ok {
			return
		}
		hasMoved = hasMoved || before.endpoint != c.found[c.client(i)].endpoint
	}
	if c.line.sticks == moved && !hasMoved {
		c.failed("%d clients, and all reached the endpoint that they had before", len(c.packets.sources))
	}
	for i, ok := range c.seen {
		if !ok && len(c.packets.sources) >= numClients && c.line.sticks == sticky {
			c.failed("%d clients, and none reached %s", len(c.packets.sources), c.line.pool[i].place)
		}
	}
}

func (c *caller) client(i int) string { return c.packets.sources[i].String() }

// callAgain makes several connections from one client, and returns where it had been
// before.
func (c *caller) callAgain(i int) (before visit, ok bool) {
	before = c.found[c.client(i)]
	for n := range perClient {
		last := c.found[c.client(i)]
		now := visit{sent: time.Now()}
		if now.endpoint, ok = c.call(i); !ok {
			return before, false
		}
		bound := n > 0 || c.line.sticks == same && c.possible(last.endpoint)
		// On a busy machine the timeout may have passed since the last connection.
		if bound && time.Since(last.sent) < c.timeout && now.endpoint != last.endpoint {
			c.failed("%s: reached %s after %s", c.sent(i), now.endpoint, last.endpoint)
			return before, false
		}
		c.found[c.client(i)] = now
	}
	return before, true
}

// possible reports whether an endpoint, as [player.name] writes it, is in the pool.
func (c *caller) possible(endpoint string) bool {
	return slices.ContainsFunc(c.line.pool, func(t target) bool {
		name, port, _ := strings.Cut(endpoint, ":")
		return t.place == name && (t.port == 0 || strconv.Itoa(int(t.port)) == port)
	})
}

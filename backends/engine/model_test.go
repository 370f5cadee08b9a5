package engine_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/backends/engine"
	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// TestModel plays random changes of Services with random failures on a data plane in memory. After each round the data plane must be
// what the claims of the ports that did not fail say, and have what failed ports had and nobody else got; once nothing
// fails any more it must be what an empty one is given.
func TestModel(t *testing.T) {
	seeds := uint64(500)
	if testing.Short() {
		seeds = 100
	}
	var total model
	for seed := range seeds {
		m := newModel(t, rand.NewPCG(seed, 7))
		m.play()
		total.partial += m.partial
		total.unknown += m.unknown
		total.restarts += m.restarts
	}
	t.Logf("%d partial errors, %d others, %d restarts", total.partial, total.unknown, total.restarts)
	if total.partial < 100 || total.unknown < 10 || total.restarts < 10 {
		t.Error("too little failed for a test of failures")
	}
}

// FuzzModel lets the fuzzer choose.
func FuzzModel(f *testing.F) {
	f.Add([]byte("held ports, moves and shared objects"))
	f.Fuzz(func(t *testing.T, choices []byte) {
		if len(choices) > 4096 {
			return
		}
		newModel(t, &source{choices: choices}).play()
	})
}

// A source is random numbers that a fuzzer chose, and others after these.
type source struct {
	choices []byte
	rest    rand.PCG
}

func (s *source) Uint64() uint64 {
	n := s.rest.Uint64()
	if len(s.choices) > 0 {
		n = uint64(s.choices[0])<<56 | n>>8
		s.choices = s.choices[1:]
	}
	return n
}

type model struct {
	*testing.T
	*rand.Rand

	plane    *plane
	engine   *engine.Engine[string, string]
	cursor   plan.Cursor
	plan     *plan.Plan
	services map[types.NamespacedName]*service.Service

	// had is what was in place of each port after the last round, by its version then.
	had map[plan.Key]map[string]string

	// done are versions that were compiled and written.
	done map[*plan.Port]bool

	partial, unknown, restarts int
}

func newModel(t *testing.T, src rand.Source) *model {
	t.Helper()
	m := &model{
		T: t, Rand: rand.New(src), plane: &plane{has: map[string]string{}}, services: map[types.NamespacedName]*service.Service{},
		plan: plan.New(config("192.0.2.1")), had: map[plan.Key]map[string]string{}, done: map[*plan.Port]bool{},
	}
	m.start()
	return m
}

func (m *model) start() {
	m.engine = engine.New(m.plane, engine.Options{Name: "test", PieceSize: m.IntN(20), Remember: func(p *plan.Port) bool { return p.AffinityTimeout > 0 }})
	m.cursor = plan.Cursor{}
}

func config(nodeAddrs ...string) plan.Config {
	c := plan.Config{Node: plan.Node{Name: "n"}}
	for _, a := range nodeAddrs {
		c.Node.Addresses = append(c.Node.Addresses, netip.MustParseAddr(a))
	}
	return c
}

func (m *model) play() {
	for range 12 {
		m.change()
		m.fail()
		if m.IntN(8) == 0 {
			m.restart()
		}
		m.sync()
	}
	*m.plane = plane{has: m.plane.has}
	if m.IntN(2) == 0 {
		m.restart()
	}
	if err := m.sync(); err != nil {
		m.Fatalf("nothing fails any more: %v", err)
	}
	if err := m.sync(); err != nil {
		m.Fatalf("nothing fails any more: %v", err)
	}
	fresh := &plane{has: map[string]string{}}
	if err := engine.New(fresh, engine.Options{}).Sync(m.Context(), plan.Full(m.plan)); err != nil {
		m.Fatal(err)
	}
	forgetVersions(fresh.has)
	forgetVersions(m.plane.has)
	if !maps.Equal(m.plane.has, fresh.has) {
		m.Fatalf("at the end there is %v, an empty data plane is given %v", m.plane.has, fresh.has)
	}
}

// forgetVersions leaves out how often a port was written, which is its history.
func forgetVersions(has map[string]string) {
	maps.DeleteFunc(has, func(id, _ string) bool { return len(id) > 8 && id[:8] == "versions" })
}

// restart stands for a new process; perhaps somebody has changed things meanwhile.
func (m *model) restart() {
	m.restarts++
	m.start()
	m.had = map[plan.Key]map[string]string{} // a new process cannot know it
	if m.IntN(2) == 0 {
		return
	}
	for id := range maps.Clone(m.plane.has) {
		if m.IntN(6) == 0 {
			delete(m.plane.has, id)
		}
	}
	m.plane.has["alien"] = "left by " + of("nobody")
}

var addrs = []string{"192.0.2.1", "192.0.2.2", "198.51.100.1", "198.51.100.2"}

// change makes new versions of some Services.
func (m *model) change() {
	in := plan.Input{Services: map[types.NamespacedName]*service.Service{}, Endpoints: map[types.NamespacedName]*endpoints.Set{}}
	for i := range m.IntN(4) {
		n := types.NamespacedName{Namespace: "ns", Name: fmt.Sprint("s", m.IntN(5))}
		in.Services[n], in.Endpoints[n] = nil, nil
		if m.IntN(5) == 0 {
			continue
		}
		in.Services[n] = m.service(n, i)
		in.Endpoints[n] = m.endpoints()
	}
	if m.IntN(10) == 0 {
		c := config("192.0.2.1", "192.0.2.2")
		if m.IntN(2) == 0 {
			c = config("192.0.2.2")
		}
		in.Config = &c
	}
	next, diff := m.plan.Update(in)
	m.plan = next
	m.cursor.Note(diff)
}

func (m *model) service(n types.NamespacedName, age int) *service.Service {
	s := &service.Service{Name: n, Created: time.Unix(int64(age), 0)}
	s.IPv4.ClusterIP = netip.MustParseAddr(fmt.Sprintf("10.0.0.%d", m.IntN(3)+1))
	for i := range m.IntN(2) + 1 {
		s.Ports = append(s.Ports, service.Port{Name: fmt.Sprint("p", i), Protocol: corev1.ProtocolTCP, Port: uint16(80 + m.IntN(2) + 2*i), NodePort: uint16(80+i) * uint16(m.IntN(2))})
	}
	for range m.IntN(3) {
		s.IPv4.ExternalIPs = append(s.IPv4.ExternalIPs, netip.MustParseAddr(addrs[m.IntN(len(addrs))]))
	}
	if m.IntN(4) == 0 {
		s.AffinityTimeout = time.Hour
	}
	return s
}

func (m *model) endpoints() *endpoints.Set {
	byPort := map[endpoints.Key][]endpoints.Endpoint{}
	for i := range 2 {
		var list []endpoints.Endpoint
		for j := range m.IntN(3) {
			list = append(list, endpoints.Endpoint{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(i), byte(m.IntN(3) + 3*j)}), 80), Ready: true, Serving: true})
		}
		byPort[endpoints.Key{Port: fmt.Sprint("p", i), Protocol: corev1.ProtocolTCP, Family: ipv4}] = list
	}
	return endpoints.NewSet(byPort)
}

// fail decides what goes wrong in the next round.
func (m *model) fail() {
	*m.plane = plane{has: m.plane.has, broken: map[*plan.Port]bool{}, refused: map[string]bool{}, clings: map[string]bool{}, halfway: m.IntN(2) == 0}
	some := func(in map[string]bool) {
		if m.IntN(4) == 0 {
			in[fmt.Sprint("s", m.IntN(5))] = true
		}
	}
	for port := range m.plan.All() {
		if !m.done[port] && m.IntN(8) == 0 {
			m.plane.broken[port] = true
		}
	}
	some(m.plane.refused)
	some(m.plane.refused)
	some(m.plane.clings)
	switch m.IntN(12) {
	case 0:
		m.plane.failWrite = m.IntN(3) + 1
	case 1:
		m.plane.failList = errGone
	}
}

// sync is a round, with all that must be true after it.
func (m *model) sync() error {
	m.Helper()
	before := maps.Clone(m.plane.has)
	d := m.cursor.Delta(m.plan)
	if d == nil {
		return nil
	}
	err := m.engine.Sync(m.Context(), d)
	m.cursor.Done(d, err)
	var partial *plan.PartialError
	switch {
	case errors.As(err, &partial):
		m.partial++
	case err != nil:
		m.unknown++
		m.had = map[plan.Key]map[string]string{}
		return err
	default:
		partial = &plan.PartialError{}
	}
	m.compare(before, partial.Ports)
	if changed, unread := m.engine.Check(m.Context()); m.plane.failList == nil && (unread != nil || len(changed) > 0) {
		m.Fatalf("Check = %v, %v right after Sync", changed, unread)
	}
	return err
}

type wish struct {
	key  plan.Key
	rank uint8
	v    string
}

// compare compares the data plane with the claims of all ports but the bad ones, and looks for what bad ones have lost.
func (m *model) compare(before map[string]string, bad map[plan.Key]error) {
	m.Helper()
	want := m.wishes(bad)
	for id, list := range want {
		best := slices.MinFunc(list, func(a, b wish) int { return cmp.Or(cmp.Compare(b.rank, a.rank), a.key.Compare(b.key)) })
		if have := m.plane.has[id]; have != best.v && len(id) > 8 && id[:8] != "versions" {
			m.Fatalf("%s is %q, want %q; bad: %v", id, have, best.v, bad)
		}
	}
	for k := range bad {
		for id, v := range m.had[k] {
			if want[id] == nil && before[id] == v && m.plane.has[id] == "" {
				m.Fatalf("%s lost %s, although nobody else got it", k, id)
			}
		}
	}
	for id := range m.plane.has {
		if want[id] == nil && (len(bad) == 0 || before[id] == "") {
			m.Fatalf("nobody wants %s; bad: %v", id, bad)
		}
	}
	m.remember(bad)
}

// wishes returns what the ports want that are not bad.
func (m *model) wishes(bad map[plan.Key]error) map[string][]wish {
	sound := &plane{}
	want := map[string][]wish{}
	add := func(port *plan.Port, k plan.Key) {
		list, _ := sound.Compile(m.plan, port, nil)
		for _, o := range list {
			want[o.ID] = append(want[o.ID], wish{k, o.Rank, o.Value})
		}
	}
	add(nil, plan.Key{})
	for port := range m.plan.All() {
		if bad[port.Key] == nil {
			add(port, port.Key)
		}
	}
	return want
}

// remember notes what is in place of each port.
func (m *model) remember(bad map[plan.Key]error) {
	sound := &plane{}
	for k := range m.had {
		if bad[k] == nil && m.plan.Port(k) == nil {
			delete(m.had, k)
		}
	}
	for port := range m.plan.All() {
		if bad[port.Key] != nil {
			continue
		}
		m.had[port.Key], m.done[port] = map[string]string{}, true
		list, _ := sound.Compile(m.plan, port, nil)
		for _, o := range list {
			if m.plane.has[o.ID] == o.Value {
				m.had[port.Key][o.ID] = o.Value
			}
		}
	}
}

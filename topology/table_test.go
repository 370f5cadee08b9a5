package topology_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/service"
	"github.com/vipkit/vipkit/topology"
)

// n1 is the node of all tests that do not say otherwise.
var n1 = topology.Node{Name: "n1", Zone: "za"}

// conditions are the states of an endpoint by their letters: ready, serving, terminating.
var conditions = map[string][3]bool{
	"R":  {true, true, false},   // normal pod
	"N":  {false, false, false}, // not ready
	"T":  {false, true, true},   // terminating, readiness still passes
	"X":  {false, false, true},  // terminating, readiness fails
	"P":  {true, true, true},    // terminating pod of a publishNotReadyAddresses Service
	"PX": {true, false, true},   // the same, readiness fails
	"S":  {false, true, false},  // hand-written slices only
}

// parse reads endpoints such as "a R loc z:za+zb n:n1, b T". The name a stands
// for the address 10.0.0.1, b for 10.0.0.2 and so on; loc is node n1, the others
// are on a node of their own. The result is sorted.
func parse(t *testing.T, text string) []*endpoints.Endpoint {
	t.Helper()
	var eps []*endpoints.Endpoint
	for item := range strings.SplitSeq(text, ",") {
		words := strings.Fields(item)
		if len(words) == 0 {
			continue
		}
		state, ok := conditions[words[1]]
		if !ok {
			t.Fatalf("endpoint %q: unknown state", item)
		}
		e := &endpoints.Endpoint{
			Addr:  netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, words[0][0] - 'a' + 1}), 80),
			Ready: state[0], Serving: state[1], Terminating: state[2],
			NodeName: "node-of-" + words[0], Hints: &endpoints.Hints{},
		}
		for _, w := range words[2:] {
			switch kind, names, _ := strings.Cut(w, ":"); kind {
			case "loc":
				e.NodeName = "n1"
			case "z":
				e.Hints.ForZones = strings.Split(names, "+")
			case "n":
				e.Hints.ForNodes = strings.Split(names, "+")
			default:
				t.Fatalf("endpoint %q: unknown word %q", item, w)
			}
		}
		eps = append(eps, e)
	}
	slices.SortFunc(eps, endpoints.Compare)
	return eps
}

// policy reads internal/external/accessible as in "C/L/yes".
func policy(text string) service.Policy {
	p := strings.Split(text, "/")
	return service.Policy{InternalLocal: p[0] == "L", ExternalLocal: p[1] == "L", External: p[2] == "yes"}
}

// names turns a list back into "a b", nil into "-".
func names(list []*endpoints.Endpoint) string {
	if list == nil {
		return "-"
	}
	var out []string
	for _, e := range list {
		out = append(out, string(rune('a'+e.Addr.Addr().As4()[3]-1)))
	}
	return strings.Join(out, " ")
}

// A row is what one row of a test table says of a Selection.
type row struct {
	Cluster, Local, Reachable string
	Any                       bool
	Mode                      topology.Mode
}

func rowOf(s topology.Selection) row {
	return row{names(s.Cluster), names(s.Local), names(s.Reachable), s.Any, s.Mode}
}

func check(t *testing.T, got topology.Selection, want row) {
	t.Helper()
	if diff := cmp.Diff(want, rowOf(got)); diff != "" {
		t.Errorf("Select (-want +got):\n%s", diff)
	}
}

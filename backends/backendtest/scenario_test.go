package backendtest

import (
	"io/fs"
	"net/netip"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
)

func TestParseLine(t *testing.T) {
	tests := []struct {
		text string
		want line
	}{
		{"p -> vip:80 => a c:9090 kept", line{from: "p", to: "vip", port: 80, verdict: plan.Forward, pool: []target{{place: "a"}, {place: "c", port: 9090}}}},
		{"a -> vip:80/UDP => a=masqueraded c kept [open x]", line{
			from: "a", to: "vip", port: 80, with: corev1.ProtocolUDP, verdict: plan.Forward, open: "x",
			pool: []target{{place: "a", masquerade: true}, {place: "c"}},
		}},
		{"clients -> vip:80 => moved a masqueraded", line{
			from: "clients", to: "vip", port: 80, verdict: plan.Forward, sticks: moved,
			pool: []target{{place: "a", masquerade: true}},
		}},
		{"p -> vip:80 => refused", line{from: "p", to: "vip", port: 80, verdict: plan.Reject}},
		{"p -> vip:80 => dropped", line{from: "p", to: "vip", port: 80, verdict: plan.Drop}},
		{"p -> vip:80 => passes refused [if x]", line{from: "p", to: "vip", port: 80, passed: "refused", onlyIf: "x"}},
		{"p -> proxy:80 => passes to proxy [unless x]", line{from: "p", to: "proxy", port: 80, passed: "proxy", pool: []target{{place: "proxy"}}, unless: []Limit{"x"}}},
		{"wait 2s", line{wait: 2 * time.Second}},
		{"alive x", line{alive: "x"}},
		{"alive x [unless y]", line{alive: "x", unless: []Limit{"y"}}},
		{"left x a b [if y]", line{left: "x", pool: []target{{place: "a"}, {place: "b"}}, onlyIf: "y"}},
	}
	for _, tt := range tests {
		tt.want.text = tt.text
		got, err := parseLine(tt.text)
		if d := cmp.Diff(tt.want, got, cmp.AllowUnexported(line{}, target{})); err != nil || d != "" {
			t.Errorf("%s: %v (-want +got):\n%s", tt.text, err, d)
		}
	}
}

func TestBadScenarios(t *testing.T) {
	const good = "About.\n-- expect --\np -> vip:80 => refused\n"
	tests := []struct{ name, text, want string }{
		{"no text", "-- expect --\np -> vip:80 => refused\n", "what it is about"},
		{"nothing expected", "About.\n", "expects nothing"},
		{"change at the end", good + "-- objects --\nkind: Service\n", "after the last change"},
		{"unknown section", good + "-- rules --\n", "unknown section"},
		{"unknown place", "About.\n-- expect --\np -> mars:80 => refused\n", `"mars"`},
		{"unknown client", "About.\n-- expect --\nvip -> vip:80 => refused\n", `"vip"`},
		{"unknown endpoint", "About.\n-- expect --\np -> vip:80 => z kept\n", `"z"`},
		{"source not said", "About.\n-- expect --\np -> vip:80 => a\n", "kept or masqueraded"},
		{"no endpoints", "About.\n-- expect --\np -> vip:80 => kept\n", "no endpoints"},
		{"no port", "About.\n-- expect --\np -> vip => refused\n", "no port"},
		{"unknown tag", "About.\n-- expect --\np -> vip:80 => refused [maybe x]\n", "unknown tag"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := load(fstest.MapFS{"x.txtar": {Data: []byte(tt.text)}})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error about %q", err, tt.want)
			}
		})
	}
}

// Every row of the decision table, every frontend and every origin appears.
func TestScenariosAreMany(t *testing.T) {
	all, err := load(Scenarios())
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 60 {
		t.Errorf("%d scenarios, want at least 60", len(all))
	}
	seen := map[string]bool{}
	for _, s := range all {
		for _, st := range s.steps {
			for _, l := range st.expect {
				seen[l.from+" "+l.to+" "+verdictName(l.verdict)] = true
			}
		}
	}
	for _, from := range []string{"p", "node", "client"} {
		for _, to := range []string{"vip", "lb", "ext", "node"} {
			for _, verdict := range []string{"forward", "reject"} {
				if !seen[from+" "+to+" "+verdict] {
					t.Errorf("no scenario has %s -> %s %s", from, to, verdict)
				}
			}
		}
	}
}

// What a scenario expects is compared with a trace in every respect.
func TestCompareTrace(t *testing.T) {
	p := &player{book: newBook()}
	at := func(text string) *endpoints.Endpoint {
		return &endpoints.Endpoint{Addr: netip.MustParseAddrPort(text)}
	}
	a, c := at("10.200.1.1:8080"), at("10.200.2.1:8080")
	tests := []struct {
		name  string
		line  string
		trace plan.Trace
		want  string
	}{
		{"as expected", "p -> vip:80 => a c kept", plan.Trace{Verdict: plan.Forward, Endpoints: []*endpoints.Endpoint{a, c}}, ""},
		{"other verdict", "p -> vip:80 => refused", plan.Trace{Verdict: plan.Drop}, "got drop, want reject"},
		{"one is missing", "p -> vip:80 => a c kept", plan.Trace{Verdict: plan.Forward, Endpoints: []*endpoints.Endpoint{a}}, "c is missing"},
		{"one too many", "p -> vip:80 => a kept", plan.Trace{Verdict: plan.Forward, Endpoints: []*endpoints.Endpoint{a, c}}, "c:8080 is not expected"},
		{"other port", "p -> vip:80 => a:80 kept", plan.Trace{Verdict: plan.Forward, Endpoints: []*endpoints.Endpoint{a}}, "a:8080 is not expected; a is missing"},
		{"masqueraded", "p -> vip:80 => a kept", plan.Trace{Verdict: plan.Forward, Endpoints: []*endpoints.Endpoint{a}, Masquerade: true}, "masquerade to a:8080: got true"},
		{"not masqueraded", "p -> vip:80 => a masqueraded", plan.Trace{
			Verdict: plan.Forward, Endpoints: []*endpoints.Endpoint{a}, Masquerade: true, Exempt: []*endpoints.Endpoint{a},
		}, "masquerade to a:8080: got false"},
		{"hairpin", "a -> vip:80 => a=masqueraded c kept", plan.Trace{
			Verdict: plan.Forward, Endpoints: []*endpoints.Endpoint{a, c}, Hairpin: []*endpoints.Endpoint{a},
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, err := parseLine(tt.line)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.compareTrace(l, tt.trace); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestScenariosAreReadable(t *testing.T) {
	names, err := fs.Glob(Scenarios(), "*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(Scenarios(), name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\r") || !strings.HasSuffix(string(text), "\n") {
			t.Errorf("%s: line ends", name)
		}
	}
}

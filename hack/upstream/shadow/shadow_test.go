package shadow

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestGeneratorRepeatsItself(t *testing.T) {
	make20 := func() string {
		g := NewGenerator(Options{Names: 3, Bad: true})
		var out []any
		for i := range 20 {
			g.Options.Family = Family(i)
			out = append(out, g.Service().Spec.String(), g.Slice().String())
		}
		return fmt.Sprint(out)
	}
	if make20() != make20() {
		t.Error("one seed gives different objects")
	}
}

func TestRenderedServers(t *testing.T) {
	text := "local 10.0.0.1 dev lo\n-A -t 10.0.0.1:80 -s rr -p 60\n-a -t 10.0.0.1:80 -r 10.1.0.1:8080 -m -w 1\n" +
		"-a -t 10.0.0.1:80 -r 10.1.0.2:8080 -m -w 0\n-A -f 7 -s rr\n-A -u [fd00::1]:53 -s rr\n"
	want := []VirtualServer{{Protocol: "TCP", Address: "10.0.0.1:80", Scheduler: "rr", Persistence: 60, Real: []string{"10.1.0.1:8080"}}}
	if got := rendered(text, corev1.IPv4Protocol); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("rendered() = %+v, want %+v", got, want)
	}
}

func TestClaimsExplainOnlyWhatIsClaimedTwice(t *testing.T) {
	ready := Endpoint{Text: "10.1.0.1:80", Ready: true, Serving: true}
	serving := Endpoint{Text: "10.1.0.1:80", Serving: true}
	ending := Endpoint{Text: "10.1.0.1:80", Serving: true, Terminating: true}
	local := ready
	local.Local = true
	tests := []struct {
		name           string
		claims         []Endpoint
		upstream, ours Endpoint
		want           bool
	}{
		{"another claim of the same kind", []Endpoint{ready, serving}, serving, ready, true},
		{"nobody claims that", []Endpoint{serving, ending}, serving, ready, false},
		{"ours terminates and upstream's does not", []Endpoint{ready, ending}, ready, ending, false},
		{"claimed once and different", []Endpoint{ready}, ready, local, false},
		{"completed from the other", []Endpoint{ready, serving}, ready, local, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := claims{"p/TCP 10.1.0.1:80": tt.claims}
			if got := c.explain(EndpointMap{"p/TCP": {tt.upstream}}, EndpointMap{"p/TCP": {tt.ours}}); got != tt.want {
				t.Errorf("explain() = %v, want %v", got, tt.want)
			}
		})
	}
}

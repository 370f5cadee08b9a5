package healthcheck_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/healthcheck"
	"github.com/vipkit/vipkit/proxy/plan"
)

func BenchmarkHealthz(b *testing.B) {
	h := healthcheck.New(healthcheck.Options{})
	h.Loop("vipkit").Updated()
	handler, req := h.Handler(), httptest.NewRequest(http.MethodGet, "/healthz", nil)
	b.ReportAllocs()
	for b.Loop() {
		handler.ServeHTTP(httptest.NewRecorder(), req)
	}
}

// One count changes among many Services.
func BenchmarkSync(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, err := healthcheck.NewServices(healthcheck.ServicesOptions{
				Loop: healthcheck.New(healthcheck.Options{}).Loop("vipkit"), Listen: newHost().listen,
			})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			w := newWorld()
			for i := range n {
				w.svc(fmt.Sprint("s", i), uint16(20000+i), "10.200.0.1")
			}
			plans := [2]*plan.Plan{w.plan(), w.svc("s0", 20000, "10.200.0.1", "10.200.0.2").plan()}
			if err := s.Sync(b.Context(), plan.Full(plans[0])); err != nil {
				b.Fatal(err)
			}
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				d := &plan.Delta{Base: plans[i%2], New: plans[(i+1)%2], Health: []types.NamespacedName{nsn("s0")}}
				if err := s.Sync(b.Context(), d); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}

package healthcheck

import (
	"net/http/httptest"
	"net/netip"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/proxy/plan"
)

// A request may be past Accept when its Service goes away.
func TestRequestAfterClose(t *testing.T) {
	p := newPort(types.NamespacedName{Namespace: "ns1", Name: "web"}, 31000, New(Options{}), new(int))
	p.state.Store(&plan.Health{Local: make([]netip.Addr, 2)})
	p.close()
	w := httptest.NewRecorder()
	p.at(listenAddress{netip.IPv4Unspecified()}).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if w.Code != 503 || w.Body.Len() == 0 || w.Header().Get(headerWeight) != "0" {
		t.Errorf("answered %d %q %v, want 503 with a body and weight 0", w.Code, w.Body, w.Header())
	}
}

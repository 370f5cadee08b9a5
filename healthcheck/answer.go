package healthcheck

import (
	"encoding/json"
	"net/http"
	"time"
)

// The paths of [Health.Handler].
const (
	PathHealthz = "/healthz"
	PathLivez   = "/livez"
)

// answer is the body of /healthz and /livez. The order of the keys is kube-proxy's.
type answer struct {
	LastUpdated  time.Time             `json:"lastUpdated"`
	CurrentTime  time.Time             `json:"currentTime"`
	NodeEligible *bool                 `json:"nodeEligible,omitempty"` // /healthz only
	Healthy      bool                  `json:"healthy"`                // the loops' health, whatever the node's
	Status       map[string]loopAnswer `json:"status,omitempty"`
}

type loopAnswer struct {
	LastUpdated time.Time `json:"lastUpdated"`
	Healthy     bool      `json:"healthy"`
}

// Handler returns a handler for /healthz and /livez; other paths are not found. Every
// method is answered. It is safe for concurrent use.
func (h *Health) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle(PathHealthz, h.Healthz())
	mux.Handle(PathLivez, h.Livez())
	return mux
}

// Healthz returns a handler that answers 200 if no loop is late and the node is eligible, and
// 503 if not, on whatever path it is put.
func (h *Health) Healthz() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		r, eligible := h.Report(), h.nodeEligible()
		h.reply(w, PathHealthz, r, &eligible)
	})
}

// Livez returns a handler that answers 200 if no loop is late and 503 if one is, on
// whatever path it is put. The node plays no part.
func (h *Health) Livez() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h.reply(w, PathLivez, h.Report(), nil)
	})
}

func (h *Health) reply(w http.ResponseWriter, path string, r Report, eligible *bool) {
	a := answer{LastUpdated: r.Updated, CurrentTime: r.Time, NodeEligible: eligible, Healthy: r.Healthy}
	for _, l := range r.Loops {
		if a.Status == nil {
			a.Status = make(map[string]loopAnswer, len(r.Loops))
		}
		a.Status[l.Name] = loopAnswer{LastUpdated: l.Updated, Healthy: l.Healthy}
	}
	code := http.StatusServiceUnavailable
	if r.Healthy && (eligible == nil || *eligible) {
		code = http.StatusOK
		// Load balancers of long ago took an old lastUpdated for a dead proxy.
		a.LastUpdated = r.Time
	}
	body, err := json.Marshal(a)
	if err != nil { // a time beyond the year 9999
		code = http.StatusInternalServerError
	}
	writeJSON(w, code, body)
	if h.opts.OnAnswer != nil {
		h.opts.OnAnswer(path, code)
	}
}

func writeJSON(w http.ResponseWriter, code int, body []byte) {
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write(body) // the client is gone
}

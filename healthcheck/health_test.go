package healthcheck_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipkit/vipkit/healthcheck"
)

// A play is a Health in a bubble of synctest with a Node of its own.
type play struct {
	*healthcheck.Health
	t     *testing.T
	start time.Time
	node  *corev1.Node
}

func newPlay(t *testing.T) *play {
	t.Helper()
	p := &play{t: t, start: time.Now(), node: &corev1.Node{}}
	p.Health = healthcheck.New(healthcheck.Options{NodeEligible: func() bool { return healthcheck.Eligible(p.node) }})
	return p
}

// at waits until a time of the play, in seconds.
func (p *play) at(seconds int) { time.Sleep(time.Until(p.time(seconds))) }

func (p *play) time(seconds int) time.Time { return p.start.Add(time.Duration(seconds) * time.Second) }

func (p *play) get(path string) reply {
	w := httptest.NewRecorder()
	p.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return reply{w.Code, w.Header(), w.Body.String()}
}

func (p *play) want(healthz, livez int) {
	p.t.Helper()
	if got := p.get("/healthz"); got.code != healthz {
		p.t.Errorf("/healthz answers %d, want %d: %s", got.code, healthz, got.body)
	}
	if got := p.get("/livez"); got.code != livez {
		p.t.Errorf("/livez answers %d, want %d: %s", got.code, livez, got.body)
	}
}

func stamp(at time.Time) string { return at.Format(time.RFC3339Nano) }

func taint(effect corev1.TaintEffect) []corev1.Taint {
	return []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Value: "1", Effect: effect}}
}

// Times are in seconds; the timeout is 60 s.
func TestHealth(t *testing.T) {
	tests := []struct {
		name string
		run  func(p *play)
	}{
		{"H01 idle for hours", func(p *play) {
			p.Loop("IPv4").Updated()
			p.at(10_000)
			now := stamp(p.time(10_000))
			want := fmt.Sprintf(`{"lastUpdated":%q,"currentTime":%q,"nodeEligible":true,"healthy":true,"status":{"IPv4":{"lastUpdated":%q,"healthy":true}}}`,
				now, now, stamp(p.start))
			if got := p.get("/healthz"); got.code != 200 || got.body != want {
				p.t.Errorf("got %d %s, want %s", got.code, got.body, want)
			}
		}},
		{"H02 not late yet", func(p *play) {
			p.Loop("IPv4").Updated()
			p.at(10)
			p.Loop("IPv4").Queued()
			p.at(69)
			p.want(200, 200)
		}},
		{"H03 H05 late at the timeout, good again when updated", func(p *play) {
			p.Loop("IPv4").Updated()
			p.at(10)
			p.Loop("IPv4").Queued()
			p.at(70)
			p.want(503, 503)
			p.Loop("IPv4").Updated()
			p.want(200, 200)
		}},
		{"H04 the oldest counts", func(p *play) {
			p.Loop("IPv4").Updated()
			p.at(10)
			p.Loop("IPv4").Queued()
			p.at(60)
			p.Loop("IPv4").Queued()
			p.at(70)
			p.want(503, 503)
		}},
		{"H06 one loop is late, and named", func(p *play) {
			p.Loop("IPv6").Updated()
			p.Loop("IPv6").Queued()
			p.at(20)
			p.Loop("IPv4").Updated()
			p.at(60)
			want := fmt.Sprintf(`{"lastUpdated":%q,"currentTime":%q,"healthy":false,"status":{"IPv4":{"lastUpdated":%q,"healthy":true},"IPv6":{"lastUpdated":%q,"healthy":false}}}`,
				stamp(p.time(20)), stamp(p.time(60)), stamp(p.time(20)), stamp(p.start))
			if got := p.get("/livez"); got.code != 503 || got.body != want {
				p.t.Errorf("got %d %s, want %s", got.code, got.body, want)
			}
		}},
		{"H07 a loop that never started is not judged", func(p *play) {
			p.Loop("IPv4").Queued()
			p.at(61)
			p.want(200, 200)
			if body := p.get("/healthz").body; strings.Contains(body, "status") {
				p.t.Errorf("the loop is in %s", body)
			}
		}},
		{"H13 livez says nothing of the node", func(p *play) {
			p.node = nil
			if body := p.get("/livez").body; strings.Contains(body, "nodeEligible") {
				p.t.Errorf("body %s", body)
			}
		}},
		{"#51 idle is healthy, and only a change that waits is not", func(p *play) {
			p.Loop("vipkit").Updated()
			for hour := range 24 {
				p.at(hour * 3600)
				p.want(200, 200)
			}
			p.Loop("vipkit").Queued()
			p.at(23*3600 + 59)
			p.want(200, 200)
			p.at(23*3600 + 60)
			p.want(503, 503)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { tt.run(newPlay(t)) })
		})
	}
}

func TestNode(t *testing.T) {
	tests := []struct {
		name           string
		node           *corev1.Node
		late           bool
		healthz, livez int
	}{
		{"H08 #53 the autoscaler will delete the node", &corev1.Node{Spec: corev1.NodeSpec{Taints: taint(corev1.TaintEffectNoSchedule)}}, false, 503, 200},
		{"H08 whatever value and effect of the taint", &corev1.Node{Spec: corev1.NodeSpec{Taints: taint(corev1.TaintEffectNoExecute)}}, false, 503, 200},
		{"H09 another taint", &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "dedicated"}}}}, false, 200, 200},
		{"H10 #53 the node is being deleted", &corev1.Node{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}}, false, 503, 200},
		{"H11 the node is not known", nil, false, 503, 200},
		{"H12 the node is cordoned", &corev1.Node{Spec: corev1.NodeSpec{Unschedulable: true}}, false, 200, 200},
		{"H14 late and tainted", &corev1.Node{Spec: corev1.NodeSpec{Taints: taint(corev1.TaintEffectNoSchedule)}}, true, 503, 503},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlay(t)
				p.node = tt.node
				p.Loop("vipkit").Updated()
				if tt.late {
					p.Loop("vipkit").Queued()
				}
				p.at(60)
				p.want(tt.healthz, tt.livez)
				body := decode(t, p.get("/healthz").body)
				if body["healthy"] != !tt.late || body["nodeEligible"] != (tt.healthz == 200) {
					t.Errorf("body %v", body)
				}
			})
		})
	}
	t.Run("H09 #53 the taint is taken away", func(t *testing.T) {
		p := newPlay(t)
		p.node.Spec.Taints = taint(corev1.TaintEffectNoSchedule)
		p.want(503, 200)
		p.node = &corev1.Node{}
		p.want(200, 200)
	})
	t.Run("no function means eligible", func(t *testing.T) {
		p := &play{t: t, Health: healthcheck.New(healthcheck.Options{})}
		p.want(200, 200)
	})
}

func TestHandler(t *testing.T) {
	answered := map[string]int{}
	h := healthcheck.New(healthcheck.Options{OnAnswer: func(path string, code int) {
		answered[fmt.Sprint(path, " ", code)]++
	}})
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete} {
		for path, want := range map[string]int{"/healthz": 200, "/livez": 200, "/": 404, "/healthz/more": 404} {
			w := httptest.NewRecorder()
			h.Handler().ServeHTTP(w, httptest.NewRequest(method, path, nil))
			if w.Code != want {
				t.Errorf("%s %s answers %d, want %d", method, path, w.Code, want)
			}
			if want == 200 && (w.Header().Get("Content-Type") != "application/json" || w.Header().Get("X-Content-Type-Options") != "nosniff") {
				t.Errorf("%s %s: headers %v", method, path, w.Header())
			}
		}
	}
	if len(answered) != 2 || answered["/healthz 200"] != 4 || answered["/livez 200"] != 4 {
		t.Errorf("counted %v, want 4 each", answered)
	}
}

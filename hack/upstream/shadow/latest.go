package shadow

import (
	"sync"

	"github.com/vipkit/vipkit/proxy/plan"
)

// latest are the trackers that were checked out last. Upstream's conntrack is given maps, which
// do not say which trackers filled them.
type latest struct {
	mu       sync.Mutex
	services *Services
	slices   *Slices
}

// current is of the whole process, as [records] is.
var current latest

func (l *latest) note(set func(*latest)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	set(l)
}

// Latest returns the trackers that were checked out last, nil if none was.
func Latest() (*Services, *Slices) {
	current.mu.Lock()
	defer current.mu.Unlock()
	return current.services, current.slices
}

// NewPlan returns the plan of what the trackers know; either may be nil.
func NewPlan(cfg plan.Config, services *Services, slices *Slices) *plan.Plan {
	var in plan.Input
	if services != nil {
		in.Services = services.Services()
	}
	if slices != nil {
		in.Endpoints = slices.Sets()
	}
	p, _ := plan.New(cfg).Update(in)
	return p
}

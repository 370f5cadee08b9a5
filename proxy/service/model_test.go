package service_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/proxy/service"
)

// A model is a consumer that a test keeps beside a tracker: which version of each Service is wanted, and
// which it took last. Version 0 is no Service.
type model struct {
	tracker       *service.ServiceChangeTracker
	wanted, taken [3]int
}

func newModel() *model {
	return &model{tracker: service.NewServiceChangeTracker(service.Options{})}
}

func modelName(i int) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: fmt.Sprint("svc", i)}
}

// want makes version the wanted one and returns whether the tracker calls the
// Service dirty.
func (m *model) want(i, version int) bool {
	m.wanted[i] = version
	if version == 0 {
		return m.tracker.Delete(modelName(i))
	}
	dirty, _ := m.tracker.Set(object(named(modelName(i).Name), versioned(version)))
	return dirty
}

func versioned(v int) change { return externalIPs(fmt.Sprint("192.0.2.", v)) }

// versionOf is the version that a Service was made from.
func versionOf(s *service.Service) int {
	if s == nil {
		return 0
	}
	return int(s.IPv4.ExternalIPs[0].As4()[3])
}

// take takes what changed, or only looks at it.
func (m *model) take(t *testing.T, peek bool) {
	t.Helper()
	get := m.tracker.Take
	if peek {
		get = m.tracker.Pending
	}
	c := get()
	for i, v := range m.wanted {
		s, ok := c.Services[modelName(i)]
		if ok != m.dirty(i) || ok && versionOf(s) != v {
			t.Fatalf("Service %d is among the changes %v in version %d, want %v in version %d", i, ok, versionOf(s), m.dirty(i), v)
		}
	}
	if !peek {
		m.taken = m.wanted
	}
}

// dirty says what the tracker has to say of a Service: the wanted version is not the one taken last.
func (m *model) dirty(i int) bool { return m.taken[i] != m.wanted[i] }

// FuzzChanges replays events and takings on a tracker and on a model. In each
// byte the low bits are the operation, the others its arguments.
func FuzzChanges(f *testing.F) {
	f.Add([]byte{0x10, 0x03, 0x20, 0x13, 0x10, 0x03})
	f.Add([]byte{0x10, 0x14, 0x02, 0x00, 0x03, 0x13, 0x33})
	f.Add([]byte{0x01, 0x22, 0x12, 0x03, 0x31, 0x00})
	f.Fuzz(func(t *testing.T, ops []byte) {
		m := newModel()
		for step, op := range ops {
			arg := int(op >> 4)
			switch kind := op & 15 % 5; kind {
			case 0, 1, 2:
				m.want(int(kind), arg%4)
			case 3:
				m.take(t, arg%2 == 1)
			case 4:
				m.relist(arg)
			}
			for i, v := range m.wanted {
				// The same version again changes nothing and tells the state.
				if got := m.want(i, v); got != m.dirty(i) {
					t.Fatalf("step %d: Service %d dirty %v, want %v: wanted %d, taken %d", step, i, got, m.dirty(i), v, m.taken[i])
				}
			}
		}
		m.take(t, false)
		if c := m.tracker.Pending(); len(c.Services) > 0 {
			t.Errorf("Pending after Take = %v", c.Services)
		}
	})
}

// relist replaces all Services by those whose bit is set, in version 1.
func (m *model) relist(bits int) {
	var list []*corev1.Service
	for i := range m.wanted {
		m.wanted[i] = bits >> i & 1
		if m.wanted[i] == 1 {
			list = append(list, object(named(modelName(i).Name), versioned(1)))
		}
	}
	m.tracker.Replace(list)
}

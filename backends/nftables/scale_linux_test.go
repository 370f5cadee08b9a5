package nftables

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
)

// usage returns the processor time of this process and of the children that it has waited
// for. Wall time alone hides work: a commit waits for the kernel most of the time.
func usage(tb testing.TB) time.Duration {
	tb.Helper()
	var sum time.Duration
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if err := unix.Getrusage(who, &u); err != nil {
			tb.Fatal(err)
		}
		sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return sum
}

// A meter reports processor time beside wall time.
type meter struct {
	b    *testing.B
	from time.Duration
	sum  time.Duration
}

func newMeter(b *testing.B) *meter {
	b.Helper()
	runtime.GC() // what was left of the preparation is not the benchmark's
	m := &meter{b: b}
	m.start()
	return m
}

func (m *meter) start() { m.b.Helper(); m.from = usage(m.b) }
func (m *meter) stop()  { m.b.Helper(); m.sum += usage(m.b) - m.from }

// report adds cpu-ns/op, and the most memory that this process and any child ever had: run
// one benchmark alone for a figure that is its own. A child starts as large as this process
// is, so if both figures are equal, that of the children is only a limit.
func (m *meter) report() {
	m.b.Helper()
	m.b.ReportMetric(float64(m.sum)/float64(m.b.N), "cpu-ns/op")
	for who, name := range map[int]string{unix.RUSAGE_SELF: "self-peak-MB", unix.RUSAGE_CHILDREN: "child-peak-MB"} {
		var u unix.Rusage
		if err := unix.Getrusage(who, &u); err != nil {
			m.b.Fatal(err)
		}
		m.b.ReportMetric(float64(u.Maxrss)/1000, name)
	}
}

// large returns a Service with the first k of 5,000 endpoints.
func large(k int) plan.Input {
	in := many(1)
	in.Endpoints = map[types.NamespacedName]*endpoints.Set{nameOf("svc0"): tenOf(0, k, "n2")}
	return in
}

const largest = 5_000

func BenchmarkLargeServiceFirstSync(b *testing.B) {
	inNetNS(b)
	p, _ := plan.New(nodeConfig()).Update(large(largest))
	b.ReportAllocs()
	m := newMeter(b)
	for b.Loop() {
		backend := newBackend(b, Options{})
		if err := backend.Sync(b.Context(), plan.Full(p)); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		m.stop()
		if err := backend.Cleanup(b.Context()); err != nil {
			b.Fatal(err)
		}
		m.start()
		b.StartTimer()
	}
	m.stop()
	m.report()
}

// BenchmarkLargeServiceOneEndpoint removes one of 5,000 endpoints and adds it again.
func BenchmarkLargeServiceOneEndpoint(b *testing.B) {
	inNetNS(b)
	w, backend := newWorld(b, nodeConfig()), newBackend(b, Options{})
	w.sync(backend, large(largest))
	inputs := []plan.Input{large(largest - 1), large(largest)}
	for i := range inputs {
		inputs[i].Services = nil
	}
	turn := 0
	b.ReportAllocs()
	m := newMeter(b)
	for b.Loop() {
		s := w.sync(backend, inputs[turn%2])
		b.ReportMetric(float64(s.Written), "statements/op")
		turn++
	}
	m.stop()
	m.report()
}

// TestLargeServiceCost counts statements: one endpoint of 5,000 costs what one of ten does,
// after the chain for the new size is there.
func TestLargeServiceCost(t *testing.T) {
	b, _ := inNowhere(t, Options{})
	w := newWorld(t, nodeConfig())
	w.sync(b, large(largest))
	w.sync(b, large(largest-1))
	for _, k := range []int{largest, largest - 1} {
		if s := w.sync(b, large(k)); s.Written > 8 || s.Full {
			t.Errorf("#66 %d endpoints: %d statements, full %v", k, s.Written, s.Full)
		}
	}
}

// TestFirstSyncGrows compares the first sync of many Services with that of few, in objects and
// statements for each Service: no pair of Services is looked at together.
func TestFirstSyncGrows(t *testing.T) {
	tests := []struct {
		name      string
		few, many plan.Input
		factor    int
	}{
		{"#66 10,000 Services with one endpoint", single(1_000), single(10_000), 10},
		{"#66 3,000 Services with ten endpoints", many(300), many(3_000), 10},
	}
	for _, tt := range tests {
		few, fewObjects := firstSync(t, tt.few)
		most, mostObjects := firstSync(t, tt.many)
		if mostObjects != fewObjects {
			t.Errorf("%s: %d chains, sets and maps, for a tenth %d", tt.name, mostObjects, fewObjects)
		}
		if most > (tt.factor+3)*few {
			t.Errorf("%s: %d bytes, for a tenth %d", tt.name, most, few)
		}
	}
}

// firstSync returns how much text a first sync is and how many objects it makes.
func firstSync(t *testing.T, in plan.Input) (bytes, made int) {
	t.Helper()
	b, r := inNowhere(t, Options{})
	newWorld(t, nodeConfig()).sync(b, in)
	for _, text := range r.texts {
		bytes += len(text)
	}
	return bytes, objects(r.texts)
}

// single returns n Services with one endpoint each.
func single(n int) plan.Input {
	in := many(n)
	for i := range n {
		in.Endpoints[nameOf(fmt.Sprint("svc", i))] = tenOf(i, 1, "n2")
	}
	return in
}

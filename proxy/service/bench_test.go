package service_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/proxy/service"
)

// manyObjects returns n dual-stack load balancers with two ports.
func manyObjects(n int) []*corev1.Service {
	list := make([]*corev1.Service, n)
	for i := range list {
		list[i] = object(dualStack, named(fmt.Sprint("svc-", i)), ingress(ip("203.0.113.9")), sourceRanges("10.0.0.0/8"), func(svc *corev1.Service) {
			svc.Spec.ClusterIPs = []string{fmt.Sprintf("10.96.%d.%d", i>>8&255, i&255), fmt.Sprintf("fd00:96::%x", i+1)}
			svc.Spec.ClusterIP = svc.Spec.ClusterIPs[0]
			svc.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80, NodePort: 30080}, {Name: "https", Port: 443, NodePort: 30443}}
		})
	}
	return list
}

func BenchmarkLoad10000(b *testing.B) {
	objects := manyObjects(10_000)
	b.ReportAllocs()
	for b.Loop() {
		tracker := service.NewServiceChangeTracker(service.Options{})
		for _, obj := range objects {
			tracker.Set(obj)
		}
		tracker.Take()
	}
}

// loaded returns a tracker that has acknowledged all of objects.
func loaded(b *testing.B, objects []*corev1.Service) *service.ServiceChangeTracker {
	b.Helper()
	tracker := service.NewServiceChangeTracker(service.Options{})
	tracker.Replace(objects)
	tracker.Take()
	return tracker
}

func BenchmarkNoChange10000(b *testing.B) {
	objects := manyObjects(10_000)
	tracker := loaded(b, objects)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if dirty, _ := tracker.Set(objects[i%len(objects)]); dirty {
			b.Fatal("an object that is the same is a change")
		}
	}
}

func BenchmarkRelist10000(b *testing.B) {
	objects := manyObjects(10_000)
	tracker := loaded(b, objects)
	b.ReportAllocs()
	for b.Loop() {
		tracker.Replace(objects)
	}
}

// BenchmarkOneChange costs the same whatever the number of Services.
func BenchmarkOneChange(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 50_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			objects := manyObjects(n)
			tracker := loaded(b, objects)
			versions := []*corev1.Service{objects[0].DeepCopy(), objects[0]}
			versions[0].Spec.Ports[0].NodePort++
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				tracker.Set(versions[i%2])
				tracker.Take()
			}
		})
	}
}

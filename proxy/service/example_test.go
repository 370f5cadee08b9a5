package service_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/proxy/service"
)

// A Service comes with a mistake, is put in place, and changes again.
func ExampleServiceChangeTracker() {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: corev1.ServiceSpec{
			ClusterIP:   "10.96.0.50",
			ExternalIPs: []string{"192.0.2.10", "192.0.2.300"},
			Ports:       []corev1.ServicePort{{Name: "http", Port: 80}},
		},
	}
	tracker := service.NewServiceChangeTracker(service.Options{})
	_, problems := tracker.Set(svc)
	for _, p := range problems {
		fmt.Println("problem:", p.Field)
	}

	changes := tracker.Take()
	for name, s := range changes.Services {
		fmt.Println(name, s.IPv4.ClusterIP, s.IPv4.ExternalIPs, s.Ports)
	}

	svc.Labels = map[string]string{"tier": "front"}
	dirty, _ := tracker.Set(svc)
	fmt.Println("a label changed, dirty:", dirty)

	tracker.Delete(types.NamespacedName{Namespace: "shop", Name: "web"})
	for name, s := range tracker.Pending().Services {
		fmt.Println(name, "is gone:", s == nil)
	}
	// Output:
	// problem: spec.externalIPs[1]
	// shop/web 10.96.0.50 [192.0.2.10] [{http TCP 80 0}]
	// a label changed, dirty: false
	// shop/web is gone: true
}

// An agent reads a scheduler from an annotation and serves only what is meant for
// it.
func ExampleOptions() {
	tracker := service.NewServiceChangeTracker(service.Options{
		ProxyName: "fast-lane",
		Ext:       func(svc *corev1.Service) any { return svc.Annotations["example.com/scheduler"] },
	})
	for _, proxyName := range []string{"", "fast-lane"} {
		svc := &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.50"}}
		svc.Namespace, svc.Name = "shop", "web-"+proxyName
		svc.Annotations = map[string]string{"example.com/scheduler": "mh"}
		if proxyName != "" {
			svc.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": proxyName}
		}
		tracker.Set(svc)
	}
	for name, s := range tracker.Pending().Services {
		fmt.Println(name, s.Ext)
	}
	// Output:
	// shop/web-fast-lane mh
}

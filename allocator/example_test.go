package allocator_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipkit/vipkit/allocator"
)

func ExamplePool() {
	pool, err := allocator.NewPool(netip.MustParsePrefix("10.96.0.0/28"), allocator.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	web := allocator.Owner{Namespace: "default", Name: "web"}
	db := allocator.Owner{Namespace: "default", Name: "db"}

	// An explicit address, and one that is picked.
	fmt.Println(pool.Claim(netip.MustParseAddr("10.96.0.10"), web))
	fmt.Println(pool.Claim(netip.MustParseAddr("10.96.0.10"), db))
	fmt.Println(pool.Claim(netip.MustParseAddr("10.97.0.10"), db))
	addr, err := pool.Pick(db)
	fmt.Println(pool.Has(addr), err)

	// Only its owner can release an address.
	err = pool.Release(netip.MustParseAddr("10.96.0.10"), db)
	fmt.Println(errors.Is(err, allocator.ErrNotOwner))
	fmt.Println(pool.Release(netip.MustParseAddr("10.96.0.10"), web))
	fmt.Printf("%+v\n", pool.Stats())
	// Output:
	// <nil>
	// allocator: claim 10.96.0.10: already allocated by default/web
	// allocator: claim 10.97.0.10: not in the valid range: The range of valid IPs is 10.96.0.0/28
	// true <nil>
	// true
	// <nil>
	// {Size:14 Free:13 Used:1 Quarantined:0 Excluded:0}
}

func ExamplePortPool() {
	ports := allocator.NewPortPool(allocator.DefaultNodePorts(), allocator.Options{Lowest: true})
	first, last, _ := ports.Bounds(allocator.Static)
	fmt.Println("for people:", first, last)
	port, err := ports.Pick(allocator.Owner{Namespace: "default", Name: "web"})
	fmt.Println("picked:", port, err)
	// Output:
	// for people: 30000 30085
	// picked: 30086 <nil>
}

// A dual-stack Service is created: values are claimed, the object is stored, and
// only then the transaction is committed.
func ExampleServices_Apply() {
	ctx := context.Background()
	services, cluster := exampleCluster()

	policy := corev1.IPFamilyPolicyRequireDualStack
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "dns"},
		Spec: corev1.ServiceSpec{
			Type:           corev1.ServiceTypeNodePort,
			Selector:       map[string]string{"app": "dns"},
			IPFamilyPolicy: &policy,
			Ports: []corev1.ServicePort{
				{Name: "udp", Port: 53, Protocol: corev1.ProtocolUDP},
				{Name: "tcp", Port: 53, Protocol: corev1.ProtocolTCP},
			},
		},
	}
	stored, err := change(ctx, services, cluster, nil, svc)
	fmt.Println(stored.Spec.IPFamilies, stored.Spec.ClusterIPs, err)
	fmt.Println(stored.Spec.Ports[0].NodePort, stored.Spec.Ports[1].NodePort)

	// Back to one family: the second address is released by the commit.
	single := corev1.IPFamilyPolicySingleStack
	update := stored.DeepCopy()
	update.Spec.IPFamilyPolicy = &single
	stored, err = change(ctx, services, cluster, stored, update)
	fmt.Println(stored.Spec.IPFamilies, stored.Spec.ClusterIPs, err)

	// A request that cannot be met says which field is to blame.
	svc.Name, svc.Spec.Ports[1].NodePort = "dns2", 30086
	_, err = change(ctx, services, cluster, nil, svc)
	fmt.Println(err)
	// Output:
	// [IPv4 IPv6] [10.96.0.17 fd00:10:96::11] <nil>
	// 30086 30086
	// [IPv4] [10.96.0.17] <nil>
	// allocator: service field spec.ports[0].nodePort: allocator: claim port 30086: already allocated by default/dns
}

// exampleCluster returns empty pools that pick the lowest value.
func exampleCluster() (*allocator.Services, allocator.ClusterConfig) {
	opts := allocator.Options{Lowest: true}
	v4, _ := allocator.NewPool(netip.MustParsePrefix("10.96.0.0/24"), opts)
	v6, _ := allocator.NewPool(netip.MustParsePrefix("fd00:10:96::/120"), opts)
	services := &allocator.Services{
		Addresses: map[corev1.IPFamily]allocator.Source[netip.Addr]{
			corev1.IPv4Protocol: v4.Source(), corev1.IPv6Protocol: v6.Source(),
		},
		Ports: allocator.NewPortPool(allocator.DefaultNodePorts(), opts).Source(),
	}
	return services, allocator.ClusterConfig{Families: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}}
}

// change is what an API server does around the write of a Service.
func change(
	ctx context.Context, services *allocator.Services, cluster allocator.ClusterConfig, before, after *corev1.Service,
) (*corev1.Service, error) {
	plan, invalid := allocator.Plan(before, after, cluster)
	if len(invalid) > 0 {
		return nil, invalid.ToAggregate()
	}
	txn, err := services.Apply(ctx, plan)
	if err != nil {
		return nil, err
	}
	defer txn.Rollback(context.WithoutCancel(ctx)) // what it cannot give back, repair will find

	svc := txn.Service()
	// Here the object is written. If that fails, return: the rollback follows.
	return svc, txn.Commit(ctx)
}

func ExampleMultiCIDR() {
	ctx := context.Background()
	web := allocator.Owner{Namespace: "default", Name: "web"}
	m := allocator.NewMultiCIDR(allocator.NewMemoryStore(nil), allocator.Options{Lowest: true})

	fmt.Println(m.Pick(ctx, corev1.IPv4Protocol, web))

	kubernetes := &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/30"}},
	}
	m.SetServiceCIDR(kubernetes)
	for range 3 {
		fmt.Println(m.Pick(ctx, corev1.IPv4Protocol, web))
	}

	// The cluster grows: a wider range over the first one.
	more := &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: "more"},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/24"}},
	}
	m.SetServiceCIDR(more)
	fmt.Println(m.Pick(ctx, corev1.IPv4Protocol, web))
	for _, r := range m.Ranges(corev1.IPv4Protocol) {
		fmt.Println(r.Prefix, r.Stats.Used, r.Stats.Free)
	}
	fmt.Println(m.CanDelete("kubernetes"), m.CanDelete("more"))
	// Output:
	// invalid IP allocator: pick IPv4 address: no range
	// 10.96.0.1 <nil>
	// 10.96.0.2 <nil>
	// invalid IP allocator: pick IPv4 address: range is full
	// 10.96.0.17 <nil>
	// 10.96.0.0/24 3 251
	// 10.96.0.0/30 2 0
	// true false
}

func ExampleAddressRepair() {
	ctx := context.Background()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	store := allocator.NewMemoryStore(func() time.Time { return start })
	web := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.10", ClusterIPs: []string{"10.96.0.10"}},
	}
	// Somebody deleted the entry of web by hand, and a Service left one behind.
	_ = store.Create(ctx, netip.MustParseAddr("10.96.0.20"), allocator.Owner{Namespace: "default", Name: "gone"})

	for _, after := range []time.Duration{30 * time.Second, 2 * time.Minute} {
		records, _ := store.List(ctx)
		findings := allocator.AddressRepair{
			Services: []*corev1.Service{web},
			Records:  records,
			Ranges:   []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")},
			Now:      start.Add(after),
		}.Findings()
		for _, f := range findings {
			fmt.Println(after, f.Value, f.Problem, f.Remedy == allocator.Wait, f.After)
		}
		if err := allocator.Repair(ctx, store, findings, nil); err != nil {
			fmt.Println(err)
		}
	}
	records, _ := store.List(ctx)
	for _, r := range records {
		fmt.Println(r.Addr, r.Owner)
	}
	// Output:
	// 30s 10.96.0.10 repair false 0s
	// 30s 10.96.0.20 leak true 30s
	// 2m0s 10.96.0.20 leak false 0s
	// 10.96.0.10 default/web
}

// lb is what a cloud does for Services of type LoadBalancer, in the smallest form: each gets an address (status.loadBalancer), and the
// machine that lb runs on routes that address to the nodes, which are supposed to take it (.ipMode VIP, the default). With
// externalTrafficPolicy: Local only those nodes count whose health check node port says 200, else those whose proxy does (port
// 10256, /healthz). Connections are spread over the nodes by the kernel (net.ipv4.fib_multipath_hash_policy 1); those to a Service with
// sessionAffinity: ClientIP all go to one node, as long as that one is there, because there is one client only.
//
//	lb KUBECONFIG SOURCE4 SOURCE6
//
// runs until it is killed, in the network namespace of the clients, whose connections to these addresses come from SOURCE4 or SOURCE6:
// addresses outside of the nodes' network, as clients of a cloud's load balancer have them (a test looks at that).
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	finalizer = "service.kubernetes.io/load-balancer-cleanup"
	period    = 250 * time.Millisecond
	patience  = 30 * time.Second // for all requests and probes of a round
)

// pools returns the first address to give away of each family.
func pools() map[v1.IPFamily]netip.Addr {
	return map[v1.IPFamily]netip.Addr{
		v1.IPv4Protocol: netip.MustParseAddr("172.19.0.1"),
		v1.IPv6Protocol: netip.MustParseAddr("fd00:19::1"),
	}
}

type balancer struct {
	client *kubernetes.Clientset
	probe  http.Client
	source map[v1.IPFamily]string
	given  map[string]string // address to the key of its Service
	routes map[string]string // address to what was told to the kernel
}

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	config.QPS, config.Burst = 100, 200
	b := &balancer{
		client: kubernetes.NewForConfigOrDie(config),
		probe:  http.Client{Timeout: 500 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}},
		source: map[v1.IPFamily]string{v1.IPv4Protocol: os.Args[2], v1.IPv6Protocol: os.Args[3]},
		given:  map[string]string{},
		routes: map[string]string{},
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	for tick := time.NewTicker(period); ctx.Err() == nil; {
		if err := b.limited(ctx); err != nil && ctx.Err() == nil {
			log.Print(err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// limited is a round that ends in time.
func (b *balancer) limited(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return b.round(ctx)
}

func (b *balancer) round(ctx context.Context) error {
	nodes, err := b.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	services, err := b.client.CoreV1().Services("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	wanted := map[string]bool{}
	for i := range services.Items {
		s := &services.Items[i]
		if s.Spec.Type != v1.ServiceTypeLoadBalancer || s.DeletionTimestamp != nil || s.Spec.LoadBalancerClass != nil {
			if err := b.release(ctx, s); err != nil {
				log.Printf("%s/%s: %v", s.Namespace, s.Name, err)
			}
			continue
		}
		addresses, err := b.assign(ctx, s)
		if err != nil {
			log.Printf("%s/%s: %v", s.Namespace, s.Name, err)
			continue
		}
		for _, a := range addresses {
			wanted[a] = true
			healthy := b.healthy(ctx, s, a, nodes.Items)
			slices.Sort(healthy)
			if s.Spec.SessionAffinity == v1.ServiceAffinityClientIP && len(healthy) > 1 {
				healthy = healthy[:1]
			}
			b.route(ctx, a, healthy)
		}
	}
	for a := range b.given {
		if !wanted[a] {
			b.route(ctx, a, nil)
			delete(b.given, a)
		}
	}
	return nil
}

// assign returns the addresses of s, which it gives it if there are none.
func (b *balancer) assign(ctx context.Context, s *v1.Service) ([]string, error) {
	var have []string
	for _, in := range s.Status.LoadBalancer.Ingress {
		have = append(have, in.IP)
		b.given[in.IP] = s.Namespace + "/" + s.Name
	}
	if len(have) > 0 {
		return have, nil
	}
	if !slices.Contains(s.Finalizers, finalizer) {
		s = s.DeepCopy()
		s.Finalizers = append(s.Finalizers, finalizer)
		updated, err := b.client.CoreV1().Services(s.Namespace).Update(ctx, s, metav1.UpdateOptions{})
		if err != nil {
			return nil, err
		}
		s = updated
	}
	s = s.DeepCopy()
	for _, family := range s.Spec.IPFamilies {
		a := pools()[family]
		for b.given[a.String()] != "" {
			a = a.Next()
		}
		b.given[a.String()] = s.Namespace + "/" + s.Name
		have = append(have, a.String())
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, v1.LoadBalancerIngress{IP: a.String()})
	}
	_, err := b.client.CoreV1().Services(s.Namespace).UpdateStatus(ctx, s, metav1.UpdateOptions{})
	return have, err
}

// release takes away what a Service has that is none of ours, or no more.
func (b *balancer) release(ctx context.Context, s *v1.Service) error {
	if i := slices.Index(s.Finalizers, finalizer); i >= 0 {
		s = s.DeepCopy()
		if len(s.Status.LoadBalancer.Ingress) > 0 && s.DeletionTimestamp == nil {
			s.Status.LoadBalancer = v1.LoadBalancerStatus{}
			updated, err := b.client.CoreV1().Services(s.Namespace).UpdateStatus(ctx, s, metav1.UpdateOptions{})
			if err != nil {
				return err
			}
			s = updated
		}
		s.Finalizers = slices.Delete(s.Finalizers, i, i+1)
		_, err := b.client.CoreV1().Services(s.Namespace).Update(ctx, s, metav1.UpdateOptions{})
		return err
	}
	return nil
}

// healthy returns the addresses of the nodes that take traffic for the address a of s.
func (b *balancer) healthy(ctx context.Context, s *v1.Service, a string, nodes []v1.Node) []string {
	port := int32(10256)
	if s.Spec.ExternalTrafficPolicy == v1.ServiceExternalTrafficPolicyLocal {
		port = s.Spec.HealthCheckNodePort
	}
	six := strings.Contains(a, ":")
	var found []string
	for _, n := range nodes {
		v4, same := "", ""
		for _, na := range n.Status.Addresses {
			if na.Type != v1.NodeInternalIP {
				continue
			}
			if !strings.Contains(na.Address, ":") {
				v4 = na.Address
			}
			if strings.Contains(na.Address, ":") == six {
				same = na.Address
			}
		}
		if same != "" && b.serves(ctx, fmt.Sprintf("http://%s:%d/healthz", v4, port)) {
			found = append(found, same)
		}
	}
	return found
}

func (b *balancer) serves(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	r, err := b.probe.Do(req)
	if err != nil {
		return false
	}
	return r.Body.Close() == nil && r.StatusCode == http.StatusOK
}

// route makes the kernel send what is for address a to one of the nodes.
func (b *balancer) route(ctx context.Context, a string, nodes []string) {
	prefix, source := a+"/32", b.source[v1.IPv4Protocol]
	args := []string{"route"}
	if strings.Contains(a, ":") {
		prefix, source = a+"/128", b.source[v1.IPv6Protocol]
		args = []string{"-6", "route"}
	}
	want := strings.Join(nodes, " ")
	if b.routes[a] == want {
		return
	}
	if len(nodes) == 0 {
		args = append(args, "delete", prefix)
	} else {
		args = append(args, "replace", prefix, "src", source)
		for _, n := range nodes {
			args = append(args, "nexthop", "via", n)
		}
	}
	if out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput(); err != nil {
		log.Printf("ip %v: %v: %s", args, err, out)
		return
	}
	log.Printf("%s (%s): %q", a, b.given[a], want)
	b.routes[a] = want
}

package manifests_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/examples/internal/manifests"
)

// names lists kind and name of everything in o, in its order.
func names(o *manifests.Objects) []string {
	var list []string
	for _, s := range o.Services {
		list = append(list, "Service "+s.Namespace+"/"+s.Name)
	}
	for _, s := range o.EndpointSlices {
		list = append(list, "EndpointSlice "+s.Namespace+"/"+s.Name)
	}
	for _, n := range o.Nodes {
		list = append(list, "Node "+n.Name)
	}
	for _, c := range o.ServiceCIDRs {
		list = append(list, "ServiceCIDR "+c.Name)
	}
	return list
}

const (
	serviceA = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n"
	serviceB = "apiVersion: v1\nkind: Service\nmetadata: {name: b, namespace: other}\n"
	jsonA    = `{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"}}`
	jsonB    = `{"apiVersion":"v1","kind":"Service","metadata":{"name":"b","namespace":"other"}}`
)

func TestParseDocuments(t *testing.T) {
	both := []string{"Service default/a", "Service other/b"}
	tests := []struct {
		name, data string
		want       []string
	}{
		{"nothing", "", nil},
		{"only comments", "# nothing here\n---\n# nor here\n", nil},
		{"two YAML documents", serviceA + "---\n" + serviceB, both},
		{"markers at both ends", "---\n" + serviceA + "---\n" + serviceB + "---\n", both},
		{"comment behind a marker", "--- # first\n" + serviceA + "---\t# second\n" + serviceB, both},
		{"document on the line of its marker", "--- " + jsonA + "\n--- " + jsonB, both},
		{"end markers", serviceA + "...\n# between\n---\n" + serviceB + "...\n", both},
		{"directive", "%YAML 1.1\n---\n" + serviceA + "---\n" + serviceB, both},
		{"byte order mark and CR LF", "\ufeff" + strings.ReplaceAll(serviceA+"---\n"+serviceB, "\n", "\r\n"), both},
		{"JSON values in a row", jsonA + jsonB + "\n", both},
		{"JSON values with tabs and a marker between", "\t" + jsonA + "\n---\n\t" + jsonB, both},
		{"JSON and YAML", jsonA + "\n---\n" + serviceB, both},
		{"flow style YAML", "{apiVersion: v1, kind: Service, metadata: {name: a}}\n---\n" + serviceB, both},
		{"List", `{"apiVersion":"v1","kind":"List","items":[` + jsonA + "," + jsonB + "]}", both},
		{"List in a List", "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: List\n  items: [" + jsonA + "]\n- " + jsonB, both},
		{"fault F32 ServiceList, as the API writes it", `{"apiVersion":"v1","kind":"ServiceList","items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b","namespace":"other"}}]}`, both},
		{"fault F32 ServiceList whose items name their kind", "apiVersion: v1\nkind: ServiceList\nitems: [" + jsonA + ", " + jsonB + "]", both},
		{"fault F32 lists of all kinds in a List", `apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ServiceList, items: [{metadata: {name: a}}]}
- {apiVersion: discovery.k8s.io/v1, kind: EndpointSliceList, items: [{metadata: {name: s}}]}
- {apiVersion: v1, kind: NodeList, items: [{metadata: {name: node-1}}]}
- {apiVersion: networking.k8s.io/v1, kind: ServiceCIDRList, items: [{metadata: {name: c}}]}
- {apiVersion: v1, kind: ServiceList, items: null}
`, []string{"Service default/a", "EndpointSlice default/s", "Node node-1", "ServiceCIDR c"}},
		{"all kinds", serviceA + `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: s}
---
apiVersion: v1
kind: Node
metadata: {name: node-1}
---
apiVersion: networking.k8s.io/v1
kind: ServiceCIDR
metadata: {name: c}
`, []string{"Service default/a", "EndpointSlice default/s", "Node node-1", "ServiceCIDR c"}},
		{"unknown fields", serviceA + "spec: {clusterip: 10.96.0.1, colour: blue}\n", both[:1]},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, notes, err := manifests.Parse("f", []byte(tt.data))
			if err != nil || len(notes) > 0 {
				t.Fatalf("Parse: notes %q, error %v", notes, err)
			}
			if diff := cmp.Diff(tt.want, names(o)); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseSkips(t *testing.T) {
	const data = serviceA + `---
# empty, and still the second
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Endpoints}
- {apiVersion: v1, kind: EndpointSlice}
- {apiVersion: discovery.k8s.io/v1beta1, kind: EndpointSlice}
---
{apiVersion: apps/v1, kind: DeploymentList, items: [{metadata: {name: d}}]}
---
{apiVersion: v1, kind: ServiceList, items: [{apiVersion: v1, kind: Pod, metadata: {name: p}}]}
---
{apiVersion: discovery.k8s.io/v1beta1, kind: EndpointSliceList, items: [{metadata: {name: s}}]}
---
{apiVersion: v1, kind: "X\x1b[2J\nfake"}
`
	want := []string{
		"f: document 3: apps/v1 Deployment is skipped",
		"f: document 4: v1 Endpoints is skipped",
		"f: document 4: v1 EndpointSlice is skipped",
		"f: document 4: discovery.k8s.io/v1beta1 EndpointSlice is skipped",
		"f: document 5: apps/v1 DeploymentList is skipped", // fault F32
		"f: document 6: v1 Pod is skipped",
		"f: document 7: discovery.k8s.io/v1beta1 EndpointSliceList is skipped",
		`f: document 8: v1 X\x1b[2J\nfake is skipped`, // fault F34
	}
	o, notes, err := manifests.Parse("f", []byte(data))
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	if diff := cmp.Diff(want, notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"Service default/a"}, names(o)); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

func TestParseErrors(t *testing.T) {
	tests := []struct {
		name, data string
		want       []string // parts of the message
	}{
		{"broken YAML", serviceA + "---\nkind: [\n", []string{"f: document 2: ", "yaml"}},
		{"broken JSON behind a good value", jsonA + `{"kind":`, []string{"f: document 2: "}},
		{"empty documents count", "---\n# one\n---\n" + serviceA + "---\n{", []string{"f: document 3: "}},
		{"wrong type", serviceA + "spec: {ports: [{port: http}]}\n", []string{"f: document 1: Service: ", "port"}},
		{"no kind", "apiVersion: v1\n", []string{"f: document 1: ", "kind is missing"}},
		{"no apiVersion", "kind: Service\n", []string{"f: document 1: ", "apiVersion or kind"}},
		{"a text", "hello\n", []string{"f: document 1: "}},
		{"a list", "[1, 2]\n", []string{"f: document 1: "}},
		{"bad item", "apiVersion: v1\nkind: List\nitems:\n- " + jsonA + "\n- {kind: Service}\n", []string{"f: document 1: items[1]: "}},
		{"fault F32 a bad item of a ServiceList", "apiVersion: v1\nkind: ServiceList\nitems:\n- " + jsonA + "\n- {spec: {ports: 7}}\n", []string{"f: document 1: items[1]: Service: "}},
		{"bad list", "apiVersion: v1\nkind: List\nitems: 7\n", []string{"f: document 1: "}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := manifests.Parse("f", []byte(tt.data))
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not contain %q", err, part)
				}
			}
		})
	}
}

func TestParseDefaults(t *testing.T) {
	const data = `
apiVersion: v1
kind: Service
metadata: {name: a}
spec:
  clusterIP: 10.96.0.1
  ports: [{port: 80}, {port: 53, protocol: UDP, name: dns}]
---
apiVersion: v1
kind: Service
metadata: {name: b, namespace: other}
spec: {clusterIP: 10.96.0.2, clusterIPs: [10.96.0.2, "fd00::2"]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: s}
ports: [{port: 8080}, {port: 53, protocol: UDP}]
`
	o, _, err := manifests.Parse("f", []byte(data))
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	a, b, s := o.Services[0], o.Services[1], o.EndpointSlices[0]
	got := []any{
		a.Namespace, a.Spec.ClusterIPs, a.Spec.Ports[0].Protocol, a.Spec.Ports[1].Protocol,
		b.Namespace, b.Spec.ClusterIPs, s.Namespace, *s.Ports[0].Protocol, *s.Ports[1].Protocol,
	}
	want := []any{
		"default",
		[]string{"10.96.0.1"},
		corev1.ProtocolTCP, corev1.ProtocolUDP,
		"other",
		[]string{"10.96.0.2", "fd00::2"},
		"default", corev1.ProtocolTCP, corev1.ProtocolUDP,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if s.Ports[0].Name != nil {
		t.Errorf("port name %q, want nil: it is not defaulted", *s.Ports[0].Name)
	}
}

// FuzzParse looks for input that makes the reader panic.
func FuzzParse(f *testing.F) {
	f.Add([]byte(serviceA + "---\n" + serviceB))
	f.Add([]byte(jsonA + jsonB))
	f.Add([]byte("%YAML 1.1\n--- {a: [b\n...\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, _, err := manifests.Parse("f", data)
		if (o == nil) != (err != nil) {
			t.Errorf("objects %v with error %v", o, err)
		}
	})
}

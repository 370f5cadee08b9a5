package manifests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/vipkit/vipkit/internal/printable"
)

// Parse reads the documents of one file, counted from 1; name is for messages
// only. It sets the namespace "default", the protocol TCP, and clusterIPs from
// clusterIP where they are missing. The error names the document and the reason;
// then nothing of the file is returned. The notes tell what was skipped.
func Parse(name string, data []byte) (objects *Objects, notes []string, err error) {
	objects = &Objects{}
	for i, doc := range split(data) {
		skipped, err := objects.add(doc, metav1.TypeMeta{})
		if err != nil {
			return nil, nil, fmt.Errorf("manifests: %s: document %d: %w", name, i+1, err)
		}
		for _, kind := range skipped {
			notes = append(notes, fmt.Sprintf("%s: document %d: %s is skipped", name, i+1, kind))
		}
	}
	return objects, notes, nil
}

// errNoKind is an object that cannot be told apart from a mistyped one, which
// nobody would want to be skipped.
var errNoKind = errors.New("apiVersion or kind is missing")

// add decodes one document and returns the kinds that it skipped. If the document does not
// name its kind, it is meta, which may be empty.
func (o *Objects) add(doc []byte, meta metav1.TypeMeta) (skipped []string, err error) {
	data, err := toJSON(doc)
	if err != nil || string(data) == "null" {
		return nil, err
	}
	if err = kjson.Unmarshal(data, &meta); err != nil {
		return nil, err
	}
	if meta.APIVersion == "" || meta.Kind == "" {
		return nil, errNoKind
	}
	if item, ok := listed(meta); ok {
		return o.addList(data, item)
	}
	known, err := o.addObject(meta, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", meta.Kind, err)
	}
	if !known {
		return []string{printable.Text(meta.APIVersion + " " + meta.Kind)}, nil
	}
	return nil, nil
}

// toJSON leaves JSON alone: as YAML it would be read again with other rules
// for white space and numbers.
func toJSON(doc []byte) ([]byte, error) {
	if doc = bytes.TrimSpace(doc); json.Valid(doc) {
		return doc, nil
	}
	return yaml.YAMLToJSON(doc)
}

// listed returns the kind of the items of a list that need not name it themselves, as in what the
// API answers; empty for v1 List, whose items do. It returns false for what is no known list.
func listed(meta metav1.TypeMeta) (item metav1.TypeMeta, ok bool) {
	kind, ok := strings.CutSuffix(meta.Kind, "List")
	switch {
	case !ok:
		return item, false
	case kind == "":
		return item, meta.APIVersion == "v1"
	}
	item = metav1.TypeMeta{APIVersion: meta.APIVersion, Kind: kind}
	known, _ := (&Objects{}).addObject(item, []byte("{}"))
	return item, known
}

func (o *Objects) addList(data []byte, item metav1.TypeMeta) (skipped []string, err error) {
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := kjson.Unmarshal(data, &list); err != nil {
		return nil, err
	}
	for i, data := range list.Items {
		s, err := o.add(data, item)
		if err != nil {
			return nil, fmt.Errorf("items[%d]: %w", i, err)
		}
		skipped = append(skipped, s...)
	}
	return skipped, nil
}

func (o *Objects) addObject(meta metav1.TypeMeta, data []byte) (known bool, err error) {
	switch meta.GroupVersionKind() {
	case corev1.SchemeGroupVersion.WithKind("Service"):
		o.Services, err = appendTo(o.Services, data, defaultService)
	case discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"):
		o.EndpointSlices, err = appendTo(o.EndpointSlices, data, defaultSlice)
	case corev1.SchemeGroupVersion.WithKind("Node"):
		o.Nodes, err = appendTo(o.Nodes, data, func(*corev1.Node) {})
	case networkingv1.SchemeGroupVersion.WithKind("ServiceCIDR"):
		o.ServiceCIDRs, err = appendTo(o.ServiceCIDRs, data, func(*networkingv1.ServiceCIDR) {})
	default:
		return false, nil
	}
	return true, err
}

func appendTo[T any](list []*T, data []byte, setDefaults func(*T)) ([]*T, error) {
	object := new(T)
	if err := kjson.Unmarshal(data, object); err != nil {
		return nil, err
	}
	setDefaults(object)
	return append(list, object), nil
}

func defaultService(svc *corev1.Service) {
	if svc.Namespace == "" {
		svc.Namespace = metav1.NamespaceDefault
	}
	if len(svc.Spec.ClusterIPs) == 0 && svc.Spec.ClusterIP != "" {
		svc.Spec.ClusterIPs = []string{svc.Spec.ClusterIP}
	}
	for i := range svc.Spec.Ports {
		if svc.Spec.Ports[i].Protocol == "" {
			svc.Spec.Ports[i].Protocol = corev1.ProtocolTCP
		}
	}
}

func defaultSlice(slice *discoveryv1.EndpointSlice) {
	if slice.Namespace == "" {
		slice.Namespace = metav1.NamespaceDefault
	}
	for i := range slice.Ports {
		if slice.Ports[i].Protocol == nil {
			tcp := corev1.ProtocolTCP
			slice.Ports[i].Protocol = &tcp
		}
	}
}

package allocator

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipkit/vipkit/internal/ip"
)

// ManagedBy is the value of the label ipaddress.kubernetes.io/managed-by on the
// IPAddress objects that API servers make, and this package too.
const ManagedBy = "ipallocator.k8s.io"

// An IPAddressClient reads and writes IPAddress objects. The client of client-go,
// NetworkingV1().IPAddresses(), is one.
type IPAddressClient interface {
	Create(ctx context.Context, obj *networkingv1.IPAddress, opts metav1.CreateOptions) (*networkingv1.IPAddress, error)
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*networkingv1.IPAddress, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
	List(ctx context.Context, opts metav1.ListOptions) (*networkingv1.IPAddressList, error)
}

// NewIPAddressStore returns a [Store] of IPAddress objects as API servers use
// them. They know their owner by namespace and name only, not by UID. Without a
// client, all calls of the Store are errors.
func NewIPAddressStore(client IPAddressClient) Store {
	if client == nil {
		return noStore{}
	}
	return ipAddresses{client}
}

// errNoAnswer is what a client says that returns neither object nor error.
var errNoAnswer = errors.New("the client returned neither an answer nor an error")

type ipAddresses struct{ client IPAddressClient }

func (s ipAddresses) Create(ctx context.Context, addr netip.Addr, owner Owner) error {
	_, err := s.client.Create(ctx, NewIPAddress(addr, owner), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return &Error{Op: "create", Value: addr.String(), Err: ErrTaken}
	}
	return err
}

// Delete reads the object first, and deletes it under the condition that it is
// still the same one.
func (s ipAddresses) Delete(ctx context.Context, addr netip.Addr, owner Owner) error {
	obj, err := s.client.Get(ctx, addr.String(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	if obj == nil {
		return errNoAnswer
	}
	if holder := parent(obj); !holder.Same(owner) {
		return &Error{Op: "delete", Value: addr.String(), Owner: holder, Err: ErrNotOwner}
	}
	opts := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(obj.UID))}
	err = s.client.Delete(ctx, addr.String(), opts)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (s ipAddresses) Get(ctx context.Context, addr netip.Addr) (Record, bool, error) {
	obj, err := s.client.Get(ctx, addr.String(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return Record{}, false, nil
	case err != nil:
		return Record{}, false, err
	}
	r, err := NewRecord(obj)
	return r, err == nil, err
}

// List leaves out objects whose name is no address; the API does not allow them.
func (s ipAddresses) List(ctx context.Context) ([]Record, error) {
	list, err := s.client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	if list == nil {
		return nil, errNoAnswer
	}
	records := make([]Record, 0, len(list.Items))
	for i := range list.Items {
		if r, err := NewRecord(&list.Items[i]); err == nil {
			records = append(records, r)
		}
	}
	return records, nil
}

// NewIPAddress returns the object by which owner, a Service, holds addr.
func NewIPAddress(addr netip.Addr, owner Owner) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{
			Name: addr.String(),
			Labels: map[string]string{
				networkingv1.LabelIPAddressFamily: string(ip.Family(addr)),
				networkingv1.LabelManagedBy:       ManagedBy,
			},
		},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{
			Resource: "services", Namespace: owner.Namespace, Name: owner.Name,
		}},
	}
}

// NewRecord reads an IPAddress object, for [MultiCIDR.Observe] and for repair. Its
// error says that obj is nil or its name not an address in canonical form.
func NewRecord(obj *networkingv1.IPAddress) (Record, error) {
	if obj == nil {
		return Record{}, errNoAnswer
	}
	addr, err := netip.ParseAddr(obj.Name)
	if err != nil || addr.String() != obj.Name || addr.Zone() != "" || addr.Is4In6() {
		return Record{}, fmt.Errorf("allocator: read IPAddress %q: the name is not a canonical address", obj.Name)
	}
	managedBy := obj.Labels[networkingv1.LabelManagedBy]
	return Record{
		Addr:       addr,
		Owner:      parent(obj),
		Created:    obj.CreationTimestamp.Time,
		Foreign:    managedBy != "" && managedBy != ManagedBy,
		Mislabeled: managedBy == "" || obj.Labels[networkingv1.LabelIPAddressFamily] != string(ip.Family(addr)),
	}, nil
}

// parent returns the Service that obj refers to, zero if it is none.
func parent(obj *networkingv1.IPAddress) Owner {
	ref := obj.Spec.ParentRef
	if ref == nil || ref.Group != "" || ref.Resource != "services" {
		return Owner{}
	}
	return Owner{Namespace: ref.Namespace, Name: ref.Name}
}

package allocator_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/allocator"
)

// ipAddressAPI is an API server that has IPAddress objects only.
type ipAddressAPI struct {
	objects map[string]*networkingv1.IPAddress
	serial  int
	fail    error // what every call returns, if not nil
	onGet   func()
}

func newIPAddressAPI(objects ...*networkingv1.IPAddress) *ipAddressAPI {
	api := &ipAddressAPI{objects: map[string]*networkingv1.IPAddress{}}
	for _, o := range objects {
		api.objects[o.Name] = o
	}
	return api
}

func ipAddressResource() schema.GroupResource {
	return schema.GroupResource{Group: "networking.k8s.io", Resource: "ipaddresses"}
}

func (api *ipAddressAPI) Create(_ context.Context, obj *networkingv1.IPAddress, _ metav1.CreateOptions) (*networkingv1.IPAddress, error) {
	if _, ok := api.objects[obj.Name]; ok {
		return nil, apierrors.NewAlreadyExists(ipAddressResource(), obj.Name)
	}
	if api.fail != nil {
		return nil, api.fail
	}
	api.serial++
	stored := obj.DeepCopy()
	stored.UID = types.UID(fmt.Sprint(api.serial))
	api.objects[obj.Name] = stored
	return stored, nil
}

func (api *ipAddressAPI) Get(_ context.Context, name string, _ metav1.GetOptions) (*networkingv1.IPAddress, error) {
	obj, ok := api.objects[name]
	if api.onGet != nil {
		api.onGet()
	}
	switch {
	case api.fail != nil:
		return nil, api.fail
	case !ok:
		return nil, apierrors.NewNotFound(ipAddressResource(), name)
	}
	return obj.DeepCopy(), nil
}

func (api *ipAddressAPI) Delete(_ context.Context, name string, opts metav1.DeleteOptions) error {
	obj, ok := api.objects[name]
	switch {
	case !ok:
		return apierrors.NewNotFound(ipAddressResource(), name)
	case opts.Preconditions == nil || *opts.Preconditions.UID != obj.UID:
		return apierrors.NewConflict(ipAddressResource(), name, errors.New("another UID"))
	}
	delete(api.objects, name)
	return nil
}

func (api *ipAddressAPI) List(context.Context, metav1.ListOptions) (*networkingv1.IPAddressList, error) {
	if api.fail != nil {
		return nil, api.fail
	}
	list := &networkingv1.IPAddressList{}
	for _, o := range api.objects {
		list.Items = append(list.Items, *o)
	}
	return list, nil
}

func TestIPAddressStore(t *testing.T) {
	ctx := t.Context()
	a, me := addr("2001:db8::1"), allocator.Owner{Namespace: "ns1", Name: "web", UID: "7"}
	t.Run("2.1 an object has labels and a parent, and no UID of it", func(t *testing.T) {
		api := newIPAddressAPI()
		store := allocator.NewIPAddressStore(api)
		wantError(t, "Create", store.Create(ctx, a, me), nil)
		obj := api.objects["2001:db8::1"]
		if obj == nil {
			t.Fatal("the object has not the canonical name")
		}
		if got := obj.Labels["ipaddress.kubernetes.io/ip-family"] + " " + obj.Labels["ipaddress.kubernetes.io/managed-by"]; got != "IPv6 ipallocator.k8s.io" {
			t.Errorf("labels %q", got)
		}
		if got, want := *obj.Spec.ParentRef, (networkingv1.ParentReference{Resource: "services", Namespace: "ns1", Name: "web"}); got != want {
			t.Errorf("parent %+v, want %+v", got, want)
		}
		wantError(t, "Create again", store.Create(ctx, a, me), allocator.ErrTaken)
	})
	t.Run("2.3 release is for the owner only, absent is fine", func(t *testing.T) {
		store := allocator.NewIPAddressStore(newIPAddressAPI())
		wantError(t, "absent", store.Delete(ctx, a, me), nil)
		wantError(t, "Create", store.Create(ctx, a, me), nil)
		wantError(t, "other", store.Delete(ctx, a, owner("db")), allocator.ErrNotOwner)
		wantError(t, "owner", store.Delete(ctx, a, me), nil)
		if _, ok, err := store.Get(ctx, a); ok || err != nil {
			t.Errorf("Get = %v, %v after Delete", ok, err)
		}
	})
	t.Run("2.3 a release does not delete an object that took the name meanwhile", func(t *testing.T) {
		api := newIPAddressAPI()
		store := allocator.NewIPAddressStore(api)
		wantError(t, "Create", store.Create(ctx, a, me), nil)
		api.onGet = func() { api.objects[a.String()] = allocator.NewIPAddress(a, owner("db")) }
		if err := store.Delete(ctx, a, me); !apierrors.IsConflict(err) {
			t.Errorf("Delete = %v, want a conflict", err)
		}
		if api.objects[a.String()] == nil {
			t.Error("the other object is gone")
		}
	})
	t.Run("#40 errors of the API come back as they are", func(t *testing.T) {
		forbidden := apierrors.NewForbidden(ipAddressResource(), "x", errors.New("no"))
		api := newIPAddressAPI()
		api.fail = forbidden
		store := allocator.NewIPAddressStore(api)
		wantError(t, "Create", store.Create(ctx, a, me), forbidden)
		wantError(t, "Delete", store.Delete(ctx, a, me), forbidden)
		_, _, err := store.Get(ctx, a)
		wantError(t, "Get", err, forbidden)
		_, err = store.List(ctx)
		wantError(t, "List", err, forbidden)
		m := allocator.NewMultiCIDR(store, allocator.Options{})
		addCIDR(t, m, "2001:db8::/112")
		wantError(t, "Refresh", m.Refresh(ctx), forbidden)
		wantError(t, "Release", m.Release(ctx, a, me), forbidden)
	})
}

func TestRecords(t *testing.T) {
	object := func(name string, change func(*networkingv1.IPAddress)) *networkingv1.IPAddress {
		obj := allocator.NewIPAddress(addr("10.1.2.3"), owner("web"))
		obj.Name = name
		if change != nil {
			change(obj)
		}
		return obj
	}
	for _, name := range []string{"010.1.2.3", "2001:DB8::1", "::ffff:1.2.3.4", "fe80::1%eth0", "ip-9xk"} {
		t.Run("2.1 not a name: "+name, func(t *testing.T) {
			if _, err := allocator.NewRecord(object(name, nil)); err == nil {
				t.Error("NewRecord took it")
			}
		})
	}
	tests := []struct {
		name   string
		change func(*networkingv1.IPAddress)
		want   allocator.Record
	}{
		{"2.1 as we make it", nil, allocator.Record{Owner: owner("web")}},
		{"2.1 managed by others", func(o *networkingv1.IPAddress) {
			o.Labels[networkingv1.LabelManagedBy] = "metallb"
		}, allocator.Record{Owner: owner("web"), Foreign: true}},
		{"2.5 no labels", func(o *networkingv1.IPAddress) { o.Labels = nil }, allocator.Record{Owner: owner("web"), Mislabeled: true}},
		{"2.5 wrong family label", func(o *networkingv1.IPAddress) {
			o.Labels[networkingv1.LabelIPAddressFamily] = "IPv6"
		}, allocator.Record{Owner: owner("web"), Mislabeled: true}},
		{"2.5 the parent is no Service", func(o *networkingv1.IPAddress) { o.Spec.ParentRef.Resource = "gateways" }, allocator.Record{}},
		{"2.5 the parent is of another group", func(o *networkingv1.IPAddress) { o.Spec.ParentRef.Group = "x.io" }, allocator.Record{}},
		{"2.5 no parent", func(o *networkingv1.IPAddress) { o.Spec.ParentRef = nil }, allocator.Record{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := allocator.NewRecord(object("10.1.2.3", tt.change))
			tt.want.Addr = addr("10.1.2.3")
			if err != nil || got != tt.want {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
	t.Run("2.1 foreign objects block their address", func(t *testing.T) {
		foreign := object("10.0.0.1", func(o *networkingv1.IPAddress) { o.Labels[networkingv1.LabelManagedBy] = "metallb" })
		bad := object("not-an-address", nil)
		m := allocator.NewMultiCIDR(allocator.NewIPAddressStore(newIPAddressAPI(foreign, bad)), allocator.Options{})
		addCIDR(t, m, "10.0.0.0/30")
		wantError(t, "Refresh", m.Refresh(t.Context()), nil)
		got := exhaust(t, m)
		if len(got) != 1 || !got[addr("10.0.0.2")] {
			t.Errorf("picked %v, want 10.0.0.2 only", got)
		}
	})
}

// serviceAPI refuses every Service as an API server with ranges would.
type serviceAPI struct{ ranges map[string]string } // by first character of the address: range, "" if none

func (api serviceAPI) Create(_ context.Context, svc *corev1.Service, opts metav1.CreateOptions) (*corev1.Service, error) {
	if !slices.Equal(opts.DryRun, []string{"All"}) {
		return nil, errors.New("not a dry run")
	}
	family := "4"
	if netip.MustParseAddr(svc.Spec.ClusterIP).Is6() {
		family = "6"
	}
	r, ok := api.ranges[family]
	if !ok {
		return nil, errors.New("spec.clusterIPs[0]: Invalid value: family is not configured")
	}
	return nil, fmt.Errorf("Service is invalid: spec.clusterIPs: Invalid value: failed to allocate: the provided IP is not in the valid range. The range of valid IPs is %s", r)
}

type serviceCIDRAPI struct {
	items []networkingv1.ServiceCIDR
	err   error
}

func (api serviceCIDRAPI) List(context.Context, metav1.ListOptions) (*networkingv1.ServiceCIDRList, error) {
	return &networkingv1.ServiceCIDRList{Items: api.items}, api.err
}

func TestDiscoverServiceRanges(t *testing.T) {
	notFound := apierrors.NewNotFound(schema.GroupResource{Resource: "servicecidrs"}, "")
	prober := serviceAPI{map[string]string{"4": "10.96.0.0/16", "6": "fd00:10:96::/112"}}
	tests := []struct {
		name   string
		lister serviceCIDRAPI
		prober allocator.ServiceCreator
		want   []netip.Prefix
	}{
		{
			"6.3 from ServiceCIDRs",
			serviceCIDRAPI{items: []networkingv1.ServiceCIDR{*serviceCIDR("b", "10.97.0.0/16", "fd00::/112"), *serviceCIDR("a", "10.96.0.0/16"), *serviceCIDR("c", "10.96.0.0/16")}},
			nil,
			[]netip.Prefix{prefix("10.96.0.0/16"), prefix("10.97.0.0/16"), prefix("fd00::/112")},
		},
		{"6.3 from the refusal of a dry run", serviceCIDRAPI{err: notFound}, prober, []netip.Prefix{prefix("10.96.0.0/16"), prefix("fd00:10:96::/112")}},
		{"6.3 there are none", serviceCIDRAPI{}, serviceAPI{map[string]string{"4": "10.96.0.0/12"}}, []netip.Prefix{prefix("10.96.0.0/12")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := allocator.DiscoverServiceRanges(t.Context(), tt.lister, tt.prober)
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("got %v, %v, want %v", got, err, tt.want)
			}
		})
	}
	t.Run("6.3 no answer", func(t *testing.T) {
		_, err := allocator.DiscoverServiceRanges(t.Context(), serviceCIDRAPI{err: notFound}, serviceAPI{})
		wantError(t, "the kind", err, allocator.ErrNoRange)
		wantError(t, "the cause", err, notFound)
	})
	t.Run("6.3 texts", func(t *testing.T) {
		for text, want := range map[string]int{
			"nothing": 0, "The range of valid IPs is ": 0, `x. The range of valid IPs is 10.0.0.0/24"`: 1,
			"The range of valid IPs is 10.0.0.0/24,fd00::/64. Sorry": 2,
		} {
			if got := allocator.ParseValidRanges(text); len(got) != want {
				t.Errorf("%q: %v, want %d", text, got, want)
			}
		}
	})
}

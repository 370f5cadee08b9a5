package storage

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"

	api "k8s.io/kubernetes/pkg/apis/core"
	k8sv1 "k8s.io/kubernetes/pkg/apis/core/v1"

	"github.com/vipkit/vipkit/hack/upstream/shadow"
)

// Create lets upstream create the Service, and asks vipkit what has to be allocated.
func (r *REST) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	w := r.vipkitWrite("create", dryrun.IsDryRun(options.DryRun))
	w.After = vipkitService(obj)
	out, err := r.Store.Create(ctx, obj, validate, options)
	r.vipkitCompare(w, out, err)
	return out, err
}

// Update lets upstream update the Service, and asks vipkit what changes hands.
func (r *REST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, validateCreate rest.ValidateObjectFunc,
	validate rest.ValidateObjectUpdateFunc, force bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	w := r.vipkitWrite("update", dryrun.IsDryRun(options.DryRun))
	if old, err := r.Store.Get(ctx, name, &metav1.GetOptions{}); err == nil {
		w.Before = vipkitService(old)
		if updated, err := info.UpdatedObject(ctx, old.DeepCopyObject()); err == nil {
			w.After = vipkitService(updated)
		}
	}
	out, created, err := r.Store.Update(ctx, name, info, validateCreate, validate, force, options)
	if w.After != nil {
		r.vipkitCompare(w, out, err)
	}
	return out, created, err
}

// Delete lets upstream delete the Service, and asks vipkit what is released.
func (r *REST) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	w := r.vipkitWrite("delete", dryrun.IsDryRun(options.DryRun))
	if old, err := r.Store.Get(ctx, name, &metav1.GetOptions{}); err == nil {
		w.Before = vipkitService(old)
	}
	out, now, err := r.Store.Delete(ctx, name, validate, options)
	if w.Before != nil && now && err == nil {
		r.vipkitCompare(w, nil, nil)
	}
	return out, now, err
}

func (r *REST) vipkitWrite(verb string, dry bool) shadow.Write {
	w := shadow.Write{Verb: verb, DryRun: dry, Ranges: map[v1.IPFamily]netip.Prefix{}, Held: r.vipkitHeld()}
	w.Families = append(w.Families, v1.IPFamily(r.primaryIPFamily))
	if r.secondaryIPFamily != "" {
		w.Families = append(w.Families, v1.IPFamily(r.secondaryIPFamily))
	}
	for family, a := range r.alloc.serviceIPAllocatorsByFamily {
		cidr := a.CIDR()
		w.Ranges[v1.IPFamily(family)] = netip.MustParsePrefix(cidr.String())
	}
	return w
}

// vipkitHeld returns what upstream's allocators hold: addresses, and "port/N".
func (r *REST) vipkitHeld() sets.Set[string] {
	held := sets.New[string]()
	for _, a := range r.alloc.serviceIPAllocatorsByFamily {
		a.ForEach(func(ip net.IP) { held.Insert(ip.String()) })
	}
	r.alloc.serviceNodePorts.ForEach(func(p int) { held.Insert(fmt.Sprintf("port/%d", p)) })
	return held
}

func (r *REST) vipkitCompare(w shadow.Write, out runtime.Object, err error) {
	answer := shadow.WriteAnswer{Held: r.vipkitHeld(), Err: err}
	if err == nil && out != nil {
		answer.Service = vipkitService(out)
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		for _, c := range status.Status().Details.Causes {
			answer.Fields = append(answer.Fields, c.Field)
		}
	}
	answer.Refused = apierrors.IsInvalid(err)
	answer.Unrelated = apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err)
	shadow.CompareWrite(w, answer)
}

// vipkitService panics if the object cannot be converted, which upstream's own code can.
func vipkitService(obj runtime.Object) *v1.Service {
	out := &v1.Service{}
	if err := k8sv1.Convert_core_Service_To_v1_Service(obj.(*api.Service), out, nil); err != nil {
		panic(err)
	}
	return out.DeepCopy()
}

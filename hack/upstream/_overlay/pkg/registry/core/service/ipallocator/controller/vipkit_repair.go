package controller

import (
	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"

	"github.com/vipkit/vipkit/hack/upstream/shadow"
)

// doRunOnce lets upstream repair, and vipkit what was there before.
func (r *RepairIPAddress) doRunOnce() error {
	repair := shadow.Repair{Now: r.clock.Now()}
	var err error
	if repair.Services, err = r.serviceLister.List(labels.Everything()); err != nil {
		return err
	}
	if repair.Ranges, err = r.serviceCIDRLister.List(labels.Everything()); err != nil {
		return err
	}
	list, err := r.ipAddressLister.List(labels.Everything())
	if err != nil {
		return err
	}
	for _, a := range list {
		repair.Addresses = append(repair.Addresses, a.DeepCopy())
	}
	recorder := &vipkitRecorder{EventRecorder: r.recorder}
	before := len(r.vipkitWrites())
	r.recorder = recorder
	err = r.upstreamDoRunOnce()
	r.recorder = recorder.EventRecorder
	if err == nil {
		shadow.CompareRepair(repair, shadow.Repaired{Reasons: recorder.reasons, Writes: r.vipkitWrites()[before:]})
	}
	return err
}

// vipkitWrites lists what the fake client was told to write, as in "create 10.0.0.1".
func (r *RepairIPAddress) vipkitWrites() []string {
	client, ok := r.client.(interface{ Actions() []k8stesting.Action })
	if !ok {
		return nil
	}
	var out []string
	for _, a := range client.Actions() {
		switch a := a.(type) {
		case k8stesting.CreateAction:
			if ip, ok := a.GetObject().(*networkingv1.IPAddress); ok {
				out = append(out, "create "+ip.Name)
			}
		case k8stesting.DeleteAction:
			out = append(out, "delete "+a.GetName())
		}
	}
	return out
}

// A vipkitRecorder notes the reasons of events.
type vipkitRecorder struct {
	events.EventRecorder
	reasons []string
}

func (r *vipkitRecorder) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	if kind == v1.EventTypeWarning {
		r.reasons = append(r.reasons, reason)
	}
	r.EventRecorder.Eventf(regarding, related, kind, reason, action, note, args...)
}

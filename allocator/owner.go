package allocator

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An Owner names who holds an address or a port: usually a Service, but any
// name will do. The zero Owner means nobody in particular: such holdings cost
// no memory beside their bit, and only the zero Owner can release them.
type Owner struct {
	Namespace, Name string

	// UID tells objects apart that had the same name one after the other. It
	// may be empty where it is not known: IPAddress objects do not carry it.
	UID types.UID
}

// ServiceOwner returns svc as the owner of its addresses and ports, the zero Owner
// if svc is nil.
func ServiceOwner(svc *corev1.Service) Owner {
	if svc == nil {
		return Owner{}
	}
	return Owner{Namespace: svc.Namespace, Name: svc.Name, UID: svc.UID}
}

// Same reports whether both names are equal, and the UIDs too if both are known.
func (o Owner) Same(other Owner) bool {
	return o.Namespace == other.Namespace && o.Name == other.Name &&
		(o.UID == other.UID || o.UID == "" || other.UID == "")
}

// String returns namespace/name, and nothing of the UID.
func (o Owner) String() string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}

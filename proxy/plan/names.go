package plan

import (
	"net/netip"
	"strconv"
)

// String returns the name as in the API: "ClusterIP", "ExternalIP",
// "LoadBalancerIP" or "NodePort".
func (k FrontendKind) String() string {
	switch k {
	case ClusterIP:
		return "ClusterIP"
	case ExternalIP:
		return "ExternalIP"
	case LoadBalancerIP:
		return "LoadBalancerIP"
	case NodePort:
		return "NodePort"
	}
	return "FrontendKind(" + strconv.Itoa(int(k)) + ")"
}

// String returns "pod", "node" or "outside".
func (o Origin) String() string {
	switch o {
	case FromPod:
		return "pod"
	case FromNode:
		return "node"
	case FromOutside:
		return "outside"
	}
	return "Origin(" + strconv.Itoa(int(o)) + ")"
}

// String returns "pass", "forward", "reject" or "drop".
func (v Verdict) String() string {
	switch v {
	case Pass:
		return "pass"
	case Forward:
		return "forward"
	case Reject:
		return "reject"
	case Drop:
		return "drop"
	}
	return "Verdict(" + strconv.Itoa(int(v)) + ")"
}

// String returns "cluster", "local", or "" for NoPool.
func (p Pool) String() string {
	switch p {
	case NoPool:
		return ""
	case ClusterPool:
		return "cluster"
	case LocalPool:
		return "local"
	}
	return "Pool(" + strconv.Itoa(int(p)) + ")"
}

// String returns what the decision table says: "cluster", "cluster+masq",
// "local", "local+masq", "reject" or "drop".
func (a Action) String() string {
	s := a.Verdict.String()
	if a.Verdict == Forward {
		s = a.Pool.String()
	}
	if a.Masquerade {
		s += "+masq"
	}
	return s
}

// String returns the address and port that clients dial, ":30080" for a NodePort.
func (f *Frontend) String() string {
	if f == nil {
		return "<nil>"
	}
	if f.Kind == NodePort {
		return ":" + strconv.Itoa(int(f.Port))
	}
	return netip.AddrPortFrom(f.Addr, f.Port).String()
}

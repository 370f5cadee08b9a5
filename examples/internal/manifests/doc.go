// Package manifests reads Kubernetes objects from YAML and JSON files, so that the
// examples need no cluster.
//
// It knows v1 Service and Node, discovery.k8s.io/v1 EndpointSlice, networking.k8s.io/v1
// ServiceCIDR, lists of one of them such as v1 ServiceList, and v1 List of any; everything else
// is skipped with a note. Fields
// that the types do not have are ignored, and the few defaults that an API server
// would fill in and that matter to a proxy are set (see [Parse]).
//
// It is no general loader: nothing is validated, and no object is written.
// Only regular files are read, of at most [MaxSize] bytes.
//
// [Load] reads everything at once; [Files], [ReadFile] and [Parse] are its parts, for a program
// that watches single files, and [Merge] puts their results together.
//
// The package is internal to the examples. A module of its own below
// examples/ may import it all the same: the rule for internal packages goes by
// import path, and such a module's path begins with that of examples/.
package manifests

package main

import (
	"embed"
	"errors"
	"io/fs"
	"path"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/vipkit/vipkit/examples/internal/manifests"
)

//go:embed manifests/*.yaml
var files embed.FS

// What happens to the endpoints of Service web in the middle of the demo.
const (
	webSlice = "web-1"
	oldPod   = "10.244.1.11"
	newPod   = "10.244.1.12"
)

// readManifests returns the objects in manifests/. The first Node by name is the one
// that the demo plays.
func readManifests() (*manifests.Objects, error) {
	names, err := fs.Glob(files, "manifests/*.yaml")
	if err != nil {
		return nil, err
	}
	var all []*manifests.Objects
	for _, name := range names {
		data, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		o, _, err := manifests.Parse(path.Base(name), data)
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	objects := manifests.Merge(all...)
	if len(objects.Nodes) == 0 {
		return nil, errors.New("manifests: there is no Node to play")
	}
	return objects, nil
}

// withNewPod returns the slice of Service web with newPod in the place of oldPod.
func withNewPod(objects *manifests.Objects) *discoveryv1.EndpointSlice {
	for _, slice := range objects.EndpointSlices {
		if slice.Name != webSlice {
			continue
		}
		changed := slice.DeepCopy()
		for _, e := range changed.Endpoints {
			if len(e.Addresses) > 0 && e.Addresses[0] == oldPod {
				e.Addresses[0] = newPod
			}
		}
		return changed
	}
	return &discoveryv1.EndpointSlice{}
}

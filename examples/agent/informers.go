package main

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	discoveryinformers "k8s.io/client-go/informers/discovery/v1"
	networkinginformers "k8s.io/client-go/informers/networking/v1"
	"k8s.io/client-go/tools/cache"
)

// An informer lists and watches one kind for a feed.
type informer struct {
	cache.SharedIndexInformer
	kind    string
	handler cache.ResourceEventHandler
}

func (c *cluster) services(to *feed) informer {
	tweak := func(o *metav1.ListOptions) { o.LabelSelector, o.FieldSelector = notOurs, withClusterIP }
	return informer{
		coreinformers.NewFilteredServiceInformer(c.client, metav1.NamespaceAll, 0, nil, tweak),
		"Service",
		handler(to.setService, to.deleteService),
	}
}

func (c *cluster) slices(to *feed) informer {
	tweak := func(o *metav1.ListOptions) { o.LabelSelector = notOurs }
	return informer{
		discoveryinformers.NewFilteredEndpointSliceInformer(c.client, metav1.NamespaceAll, 0, nil, tweak),
		"EndpointSlice",
		handler(to.setSlice, to.deleteSlice),
	}
}

// nodes is about the one Node only: the others are many, and change all the time.
func (c *cluster) nodes(to *feed) informer {
	tweak := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, c.node).String()
	}
	return informer{
		coreinformers.NewFilteredNodeInformer(c.client, 0, nil, tweak),
		"Node",
		handler(to.setNode, func(types.NamespacedName) { to.deleteNode() }),
	}
}

func (c *cluster) serviceCIDRs(to *feed) informer {
	return informer{
		networkinginformers.NewServiceCIDRInformer(c.client, 0, nil),
		"ServiceCIDR",
		handler(to.setCIDR, to.deleteCIDR),
	}
}

// handler passes events on. An update needs no old object, and a deletion that was missed
// comes with the next list.
func handler[T any](set func(*T), remove func(types.NamespacedName)) cache.ResourceEventHandler {
	take := func(o any) {
		if object, ok := o.(*T); ok {
			set(object)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    take,
		UpdateFunc: func(_, o any) { take(o) },
		DeleteFunc: func(o any) {
			if name, err := cache.DeletionHandlingObjectToName(o); err == nil {
				remove(name.AsNamespacedName())
			}
		},
	}
}

// prepare connects an informer. What it returns is true when the feed has been given the
// first list as a whole.
func (c *cluster) prepare(i informer) (cache.InformerSynced, error) {
	if err := i.SetTransform(trim); err != nil {
		return nil, err
	}
	err := i.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		c.logger.Warn("cannot list or watch, trying again", "kind", i.kind, "error", err)
	})
	if err != nil {
		return nil, err
	}
	registered, err := i.AddEventHandler(i.handler)
	if err != nil {
		return nil, err
	}
	return registered.HasSynced, nil
}

// trim drops what no proxy needs and takes half of the memory.
func trim(o any) (any, error) {
	if object, ok := o.(metav1.Object); ok {
		object.SetManagedFields(nil)
	}
	return o, nil
}

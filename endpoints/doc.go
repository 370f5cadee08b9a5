// Package endpoints turns EndpointSlices into immutable sets of endpoints.
package endpoints

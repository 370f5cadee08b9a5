package manifests

import (
	"bytes"
	"encoding/json"
)

// split returns the documents of a file, empty ones included so that they keep
// their numbers. What stands before the first marker is a document only if it
// is more than comments and directives.
func split(data []byte) [][]byte {
	var docs [][]byte
	var doc []byte
	started := false
	end := func() {
		if started || !isBlank(doc) {
			docs = append(docs, values(doc)...)
		}
		doc, started = nil, false
	}
	for line := range bytes.Lines(bytes.TrimPrefix(data, []byte("\ufeff"))) {
		switch {
		case isMarker(line, "---"):
			end()
			started = true
			// The document may begin on the line of its marker.
			doc = append(doc, line[len("---"):]...)
		case isMarker(line, "..."):
			end()
		default:
			doc = append(doc, line...)
		}
	}
	end()
	return docs
}

// isMarker reports whether line separates documents: YAML wants the marker at the
// line's beginning, and white space or nothing behind it.
func isMarker(line []byte, marker string) bool {
	rest, ok := bytes.CutPrefix(line, []byte(marker))
	return ok && (len(rest) == 0 || bytes.ContainsRune([]byte(" \t\r\n"), rune(rest[0])))
}

// isBlank reports whether doc has only blank lines, comments and YAML directives.
func isBlank(doc []byte) bool {
	for line := range bytes.Lines(doc) {
		trimmed := bytes.TrimSpace(line)
		if len(trimmed) > 0 && trimmed[0] != '#' && line[0] != '%' {
			return false
		}
	}
	return true
}

// values splits a run of JSON values, as kubectl and jq print them, into its
// values. Everything else, YAML's own {a: b} too, is one document.
func values(doc []byte) [][]byte {
	var docs [][]byte
	rest := doc
	for bytes.HasPrefix(bytes.TrimSpace(rest), []byte("{")) {
		dec := json.NewDecoder(bytes.NewReader(rest))
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			break // broken JSON or YAML: the YAML reader decides
		}
		docs = append(docs, value)
		rest = rest[dec.InputOffset():]
	}
	if len(docs) == 0 || !isBlank(rest) {
		docs = append(docs, rest)
	}
	return docs
}

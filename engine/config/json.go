package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// looksJSON says whether data is one JSON object or array. Anything else,
// broken JSON included, is read as YAML.
func looksJSON(data []byte) bool {
	start := bytes.TrimLeft(data, " \t\r\n")
	return len(start) > 0 && (start[0] == '{' || start[0] == '[') && json.Valid(data)
}

// readJSON reads one JSON value.
func readJSON(data []byte) (*node, *fault) {
	if err := json.Unmarshal(data, new(json.RawMessage)); err != nil {
		at := len(data)
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			at = int(syntax.Offset) - 1
		}
		return nil, &fault{place(data, max(at, 0)), "not valid JSON: " + err.Error()}
	}
	r := jsonReader{data: data, decoder: json.NewDecoder(bytes.NewReader(data)), position: position{1, 1}}
	r.decoder.UseNumber()
	return r.value(1)
}

// jsonReader turns the tokens of valid JSON into nodes.
type jsonReader struct {
	data    []byte
	decoder *json.Decoder
	values  int

	counted  int // bytes of data that are before position
	position position
}

// next returns the next token and where it begins. Positions are counted on
// from the last one, so that reading stays linear.
func (r *jsonReader) next() (json.Token, position, error) {
	offset := int(r.decoder.InputOffset())
	for offset < len(r.data) && strings.IndexByte(" \t\r\n,:", r.data[offset]) >= 0 {
		offset++
	}
	for _, c := range string(r.data[r.counted:offset]) {
		r.position.column++
		if c == '\n' {
			r.position = position{r.position.line + 1, 1}
		}
	}
	r.counted = offset
	token, err := r.decoder.Token()
	return token, r.position, err
}

func (r *jsonReader) value(depth int) (*node, *fault) {
	token, at, err := r.next()
	if err != nil {
		return nil, &fault{at, "not valid JSON: " + err.Error()}
	}
	if f := grow(&r.values, depth, at); f != nil {
		return nil, f
	}
	n := &node{position: at}
	switch token := token.(type) {
	case nil:
		n.kind = null
	case bool:
		n.kind, n.text = boolean, strconv.FormatBool(token)
	case json.Number:
		n.kind, n.text = number, token.String()
	case string:
		n.kind, n.text = text, token
	case json.Delim:
		return n, r.collection(n, token, depth)
	}
	return n, nil
}

// collection reads a list or a mapping to its end.
func (r *jsonReader) collection(n *node, open json.Delim, depth int) *fault {
	n.kind = list
	if open == '{' {
		n.kind = mapping
	}
	for r.decoder.More() {
		var f field
		if n.kind == mapping {
			key, at, err := r.next()
			name, ok := key.(string)
			if err != nil || !ok {
				return &fault{at, "not valid JSON: a key must be a string"}
			}
			f.key, f.position = name, at
		}
		value, fault := r.value(depth + 1)
		if fault != nil {
			return fault
		}
		if f.value = value; n.kind == mapping {
			n.fields = append(n.fields, f)
		} else {
			n.items = append(n.items, value)
		}
	}
	if _, at, err := r.next(); err != nil { // the closing bracket
		return &fault{at, "not valid JSON: " + err.Error()}
	}
	return nil
}

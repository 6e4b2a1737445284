package transcript

import (
	"encoding/json"
	"errors"
	"io"
	"strings"

	"conclave/cmd/conclave/progress"
)

// maxInline is the length in bytes up to which a value stands beside its name.
const maxInline = 100

// argument is one argument of a tool call.
type argument struct {
	name, value string
}

// arguments draws the arguments of a call, or the text that should have been some.
func (p *printer) arguments(text string) {
	list, ok := parseArguments(text)
	if !ok {
		p.text(2, text)
		return
	}
	for _, a := range list {
		name := progress.Line(a.name)
		if len(a.value) <= maxInline && !strings.ContainsAny(a.value, "\r\n") {
			p.line(2, "%s: %s", name, progress.Plain(a.value))
			continue
		}
		p.line(2, "%s:", name)
		p.text(3, a.value)
	}
}

// parseArguments reads the members of a JSON object in their order, strings as
// what they say. It reports whether the text is one object and nothing else.
func parseArguments(text string) ([]argument, bool) {
	d := json.NewDecoder(strings.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	var list []argument
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, false
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, false
		}
		a := argument{value: string(value)}
		a.name, _ = name.(string)
		var said string
		if json.Unmarshal(value, &said) == nil && string(value) != "null" {
			a.value = said
		}
		list = append(list, a)
	}
	if _, err := d.Token(); err != nil {
		return nil, false
	}
	_, err := d.Token()
	return list, errors.Is(err, io.EOF)
}

package openai

import (
	"bufio"
	"errors"
	"io"
	"iter"
	"strings"
)

// event is one server-sent event.
type event struct{ name, data string }

// events yields the events of a stream as they arrive, and the error that it ends
// with, if any. The last event needs no blank line after it.
func events(r *bufio.Reader) iter.Seq2[event, error] {
	return func(yield func(event, error) bool) {
		var next event
		var data []string
		for {
			line, err := r.ReadString('\n')
			if err != nil && !errors.Is(err, io.EOF) {
				yield(event{}, err)
				return
			}
			next.field(strings.TrimRight(line, "\r\n"), &data)
			if strings.TrimRight(line, "\r\n") == "" || err != nil {
				if next.data = strings.Join(data, "\n"); len(data) > 0 && !yield(next, nil) {
					return
				}
				next, data = event{}, nil
			}
			if err != nil {
				return
			}
		}
	}
}

// field takes a line of an event. Comments, and fields of no use here, are passed
// over; llama.cpp has put its errors in a field of their own.
func (e *event) field(line string, data *[]string) {
	name, value, _ := strings.Cut(line, ":")
	value = strings.TrimPrefix(value, " ")
	switch name {
	case "data":
		*data = append(*data, value)
	case "event":
		e.name = value
	case "error":
		e.name, *data = "error", append(*data, value)
	}
}

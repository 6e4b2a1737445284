package openai_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// A beat is one action of a scripted server on its connection. It writes raw bytes,
// headers included, so that they can be malformed.
type beat func(conn net.Conn) error

// plays runs the beats in order and closes the connection after the last.
func plays(beats ...beat) http.HandlerFunc {
	return func(res http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(res).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		for _, next := range beats {
			if next(conn) != nil {
				return
			}
		}
	}
}

// sends writes raw bytes.
func sends(text string) beat {
	return func(conn net.Conn) error {
		_, err := io.WriteString(conn, text)
		return err
	}
}

// begins writes the head of a response with a chunked body.
func begins(contentType string, headers ...string) beat {
	head := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: " + contentType + "\r\n"
	for i := 0; i < len(headers); i += 2 {
		head += headers[i] + ": " + headers[i+1] + "\r\n"
	}
	return sends(head + "\r\n")
}

// streams writes the head of a stream.
func streams() beat { return begins("text/event-stream") }

// chunk writes a piece of the body.
func chunk(text string) beat { return sends(fmt.Sprintf("%x\r\n%s\r\n", len(text), text)) }

// says writes an event of a stream.
func says(data string) beat { return chunk("data: " + data + "\n\n") }

// ends writes the end of the body.
func ends() beat { return sends("0\r\n\r\n") }

// pauses waits.
func pauses(d time.Duration) beat {
	return func(net.Conn) error {
		<-time.After(d)
		return nil
	}
}

// stalls waits until the client closes the connection, and records the time.
func stalls(hungUp *time.Time) beat {
	return func(conn net.Conn) error {
		_, err := bufio.NewReader(conn).ReadByte()
		if hungUp != nil {
			*hungUp = time.Now()
		}
		return err
	}
}

// drips writes a piece of the body repeatedly.
func drips(piece string, every time.Duration) beat {
	return func(conn net.Conn) error {
		for {
			if err := chunk(piece)(conn); err != nil {
				return err
			}
			<-time.After(every)
		}
	}
}

// floods writes a piece of the body endlessly, without a pause.
func floods(piece string) beat {
	return func(conn net.Conn) error {
		for {
			if err := chunk(piece)(conn); err != nil {
				return err
			}
		}
	}
}

// zipped compresses text with gzip.
func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.String()
}

// chunks returns one beat for every byte of a body.
func chunks(text string) []beat {
	var out []beat
	for piece := range strings.SplitSeq(text, "") {
		out = append(out, chunk(piece))
	}
	return out
}

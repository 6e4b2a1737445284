package web

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/api/access"
	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/test/stage"
	"conclave/cmd/conclave/view/page"
	"conclave/engine/coordination"
)

// serving serves the page of a played session and returns its address.
func serving(t *testing.T, p *stage.Play) (server *httptest.Server, base string) {
	t.Helper()
	h, path := Directory("s1", record.InDirectory(p.Store, nil))
	gate, err := access.New("127.0.0.1:0", nil)
	require.NoError(t, err)
	server = httptest.NewServer(gate.Handler(h))
	t.Cleanup(server.Close)
	return server, server.URL + path
}

func get(t *testing.T, address string) (int, string, http.Header) {
	t.Helper()
	reply, err := http.Get(address)
	require.NoError(t, err)
	defer func() { _ = reply.Body.Close() }()
	body, err := io.ReadAll(reply.Body)
	require.NoError(t, err)
	return reply.StatusCode, string(body), reply.Header
}

// stream is an open stream of events.
type stream struct {
	t      *testing.T
	lines  *bufio.Scanner
	lastID string
	close  func()
}

func follow(t *testing.T, address, lastID string) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	require.NoError(t, err)
	if lastID != "" {
		request.Header.Set("Last-Event-ID", lastID)
	}
	reply, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.Equal(t, "text/event-stream", reply.Header.Get("Content-Type"))
	s := &stream{t: t, lines: bufio.NewScanner(reply.Body), close: func() { cancel(); _ = reply.Body.Close() }}
	s.lines.Buffer(nil, 16<<20)
	t.Cleanup(s.close)
	return s
}

// next returns the parts of the next message, nil at the end of the session.
func (s *stream) next() map[string]string {
	s.t.Helper()
	for s.lines.Scan() {
		field, value, _ := strings.Cut(s.lines.Text(), ": ")
		switch {
		case field == "id":
			s.lastID = value
		case field == "event" && value == "end":
			return nil
		case field == "data" && value != "":
			var parts []page.Part
			require.NoError(s.t, json.Unmarshal([]byte(value), &parts))
			got := map[string]string{}
			for _, p := range parts {
				got[p.ID] = p.HTML
			}
			return got
		}
	}
	require.FailNow(s.t, "the stream has ended")
	return nil
}

var since = regexp.MustCompile(`data-events="([^"]*)"`)

func TestHandler_follows(t *testing.T) {
	t.Parallel()
	p := stage.NewRecord(t, "Why?", coordination.Config{Agents: []string{"agent_a", "agent_b"}})
	server, base := serving(t, p)
	code, html, header := get(t, base)
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, page.ServedPolicy, header.Get("Content-Security-Policy"))
	require.Equal(t, "same-origin", header.Get("Referrer-Policy"), "forms have to tell their origin")
	require.NotContains(t, html, `name="referrer"`)
	require.Contains(t, html, "At work: agent_a and agent_b.")
	events := server.URL + since.FindStringSubmatch(html)[1]

	s := follow(t, events, "")
	p.Answer(1, "agent_a", "Because.", nil)
	for parts := s.next(); parts["answer-agent1.1"] == ""; parts = s.next() {
		require.NotNil(t, parts)
	}
	s.close()

	// A reader that reconnects gets everything newer than its last message, and nothing else.
	p.Answer(1, "agent_b", "Why not?", nil)
	again := follow(t, events, s.lastID)
	for parts := again.next(); parts["answer-agent2.1"] == ""; parts = again.next() {
		require.NotContains(t, parts, "glossary")
	}
	p.Vote(1, "agent_a", "agent_b", "It is.")
	p.Vote(1, "agent_b", "agent_b", "Mine.")
	decided := ""
	for parts := again.next(); parts != nil; parts = again.next() {
		decided += parts["decision"]
	}
	require.Contains(t, decided, `The decision: <a href="#answer-agent2.1">agent2.1</a>, by agent_b`)
}

func TestHandler_parts(t *testing.T) {
	t.Parallel()
	_, base := serving(t, stage.ThreeRounds(t))
	code, html, _ := get(t, base+"/steps/agent_c/1")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, html, "rejected: no_tool_calls")

	code, html, _ = get(t, base+"/files/agent3.2/main.go?view")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, html, `<span class="k-comment">// main opens the shop.</span>`)

	code, body, header := get(t, base+"/files/agent3.2/main.go")
	require.Equal(t, http.StatusOK, code)
	require.True(t, strings.HasPrefix(body, "package main\n"))
	require.Equal(t, `attachment; filename="main.go"`, header.Get("Content-Disposition"))
	require.Equal(t, "application/octet-stream", header.Get("Content-Type"))
	require.Equal(t, "nosniff", header.Get("X-Content-Type-Options"))

	for _, missing := range []string{"/steps/agent_z/1", "/files/agent3.2/none", "/files/agent9.1/main.go", "/files/agent3.2/../session.json"} {
		code, _, _ = get(t, base+missing)
		require.Equal(t, http.StatusNotFound, code, missing)
	}
}

func TestHandler_refuses(t *testing.T) {
	t.Parallel()
	server, base := serving(t, stage.ThreeRounds(t))
	post := func(host, origin, site string) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/pause", strings.NewReader(url.Values{"token": {"x"}}.Encode()))
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if host != "" {
			request.Host = host
		}
		if origin != "" {
			request.Header.Set("Origin", origin)
		}
		if site != "" {
			request.Header.Set("Sec-Fetch-Site", site)
		}
		reply, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		body, err := io.ReadAll(reply.Body)
		require.NoError(t, err)
		require.NoError(t, reply.Body.Close())
		require.NotContains(t, string(body), "<form")
		return reply.StatusCode
	}
	require.Equal(t, http.StatusForbidden, post("evil.example", "", ""))
	require.Equal(t, http.StatusForbidden, post("", "http://evil.example", ""))
	require.Equal(t, http.StatusForbidden, post("", "null", ""))
	require.Equal(t, http.StatusForbidden, post("", "", "cross-site"))
	require.Equal(t, http.StatusForbidden, post("", server.URL, "same-origin"), "it is read-only")

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base, nil)
	require.NoError(t, err)
	request.Host = "evil.example:80"
	reply, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, reply.Body.Close())
	require.Equal(t, http.StatusForbidden, reply.StatusCode)
}

// A message has the parts that changed: lists, lanes and the comparison are not sent again when
// an answer is added to them.
func TestFollowed_small(t *testing.T) {
	t.Parallel()
	p := stage.NewRecord(t, "Why?", coordination.Config{Agents: []string{"agent_a", "agent_b"}})
	p.Answer(1, "agent_a", "Because.", nil)
	p.Answer(1, "agent_b", "Why not?", nil)
	f := newFollowed("/sessions/s1", newSession(record.NewReader(p.Store, p.Layout, nil)))
	require.NoError(t, f.refresh(t.Context()))
	whole, version, _, _ := f.newerParts(0)
	for _, id := range []string{"compare", "answer-agent1.1", "cost-agent_a_001"} {
		require.Contains(t, partsByID(whole), id)
	}
	for id, section := range map[string]string{"marks.0-agent_a": "story", "bars.0-agent_a": "story", "event-1": "story"} {
		require.NotEmpty(t, partsByID(whole)[id], id)
		require.Contains(t, partsByID(whole)[section], partsByID(whole)[id], "a whole section has its items")
	}

	p.Answer(1, "agent_a", "Because of that.", nil)
	require.NoError(t, f.refresh(t.Context()))
	parts, version, _, _ := f.newerParts(version)
	news := partsByID(parts)
	for _, id := range []string{"answer-agent1.2", "marks.0-agent_a", "bars.0-agent_a", "going-agent_a", "cost-agent_a_002", "spent", "board"} {
		require.Contains(t, news, id)
	}
	for _, id := range []string{"story", "compare", "marks.0-agent_b", "bars.0-agent_b", "why", "event-1", "answer-agent1.1", "answer-agent2.1", "cost-agent_a_001", "step-agent_a-001"} {
		require.NotContains(t, news, id, "it has not changed")
	}

	p.Say(1, "", "Think of the weather.")
	require.NoError(t, f.refresh(t.Context()))
	parts, _, _, _ = f.newerParts(version)
	require.Contains(t, partsByID(parts)["story"], "Think of the weather.", "a message crosses all lanes")
	require.Contains(t, partsByID(parts)["why"], partsByID(parts)["fact-People_said"], "a new fact comes with its section")
}

package mcp

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	acts "conclave/activities/session"
	"conclave/cmd/conclave/api/access"
	"conclave/cmd/conclave/api/gateway"
	"conclave/cmd/conclave/test/callers"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/files/snapshot"
	"conclave/engine/llm"
	"conclave/workflows"
	sessionflow "conclave/workflows/session"
)

// connect connects a client to a server in this process.
func connect(t *testing.T, d *gateway.Desk, by access.Caller, o Options, client *mcp.Client, version string) *mcp.ClientSession {
	t.Helper()
	server, other := mcp.NewInMemoryTransports()
	_, err := New(d, by, o).Connect(t.Context(), server, nil)
	require.NoError(t, err)
	session, err := client.Connect(t.Context(), other, &mcp.ClientSessionOptions{ProtocolVersion: version})
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() }) // a client that has gone already
	return session
}

func newClient(o *mcp.ClientOptions) *mcp.Client {
	return mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o)
}

// call calls a tool and decodes its structured result.
func call[R any](t *testing.T, s *mcp.ClientSession, tool string, arguments any) (r R, whole *mcp.CallToolResult) {
	t.Helper()
	whole, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	require.NoError(t, err)
	if !whole.IsError {
		decode(t, whole.StructuredContent, &r)
	}
	return r, whole
}

// refused calls a tool, which is refused, and returns the reason.
func refused(t *testing.T, s *mcp.ClientSession, tool string, arguments any) string {
	t.Helper()
	_, whole := call[any](t, s, tool, arguments)
	require.True(t, whole.IsError, "%s was not refused", tool)
	return textOf(whole)
}

func textOf(r *mcp.CallToolResult) string { return r.Content[0].(*mcp.TextContent).Text }

type fields = map[string]any

// inBubble runs a test with a simulated clock and a server with one client.
func inBubble(t *testing.T, by access.Caller, o Options, client *mcp.ClientOptions, test func(*testing.T, *callers.Temporal, *mcp.ClientSession)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		played := callers.New(t)
		s := connect(t, played.Desk(t), by, o, newClient(client), "")
		test(t, played, s)
		require.NoError(t, s.Close())
	})
}

func TestTools(t *testing.T) {
	for name, tc := range map[string]struct {
		by    access.Caller
		o     Options
		tools []string
		teams string
	}{
		"all":       {access.Caller{}, Options{}, []string{"ask_team", "decide_now", "say", "session_diff", "session_result", "session_status"}, "teams: default, reviewers."},
		"read-only": {access.Caller{}, Options{ReadOnly: true}, []string{"session_diff", "session_result", "session_status"}, ""},
		"a key":     {callers.Alice, Options{}, []string{"ask_team", "decide_now", "say", "session_diff", "session_result", "session_status"}, "teams: reviewers."},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, tc.by, tc.o, nil, func(t *testing.T, _ *callers.Temporal, s *mcp.ClientSession) {
				listed, err := s.ListTools(t.Context(), nil)
				require.NoError(t, err)
				var names []string
				for _, tool := range listed.Tools {
					names = append(names, tool.Name)
					if tool.Name == "ask_team" {
						require.Contains(t, tool.Description, tc.teams)
					}
				}
				require.ElementsMatch(t, tc.tools, names)
			})
		})
	}
}

// The answer comes with its votes, its cost and a link; the events come as progress.
func TestAsk(t *testing.T) {
	var reported []string
	progress := &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
		reported = append(reported, r.Params.Message)
	}}
	inBubble(t, access.Caller{}, Options{}, progress, func(t *testing.T, played *callers.Temporal, s *mcp.ClientSession) {
		go func() {
			begun := played.Begun(t)
			begun.Report("agent_a answered agent1.1", "agent_b voted for agent1.1")
			usd := 0.5
			begun.Decide("Tabs.", llm.Usage{InputTokens: 30, OutputTokens: 12, TotalUSD: &usd})
		}()
		params := &mcp.CallToolParams{Name: "ask_team", Arguments: fields{"question": "Tabs or spaces?", "team": "reviewers"}}
		params.SetProgressToken("p1")
		whole, err := s.CallTool(t.Context(), params)
		require.NoError(t, err)
		require.Equal(t, "Tabs.", textOf(whole))
		var out outcome
		decode(t, whole.StructuredContent, &out)
		require.Equal(t, "consensus", out.Status)
		require.Equal(t, "agent1.1", out.Winner)
		require.Equal(t, 2, out.Votes)
		require.EqualValues(t, 42, out.Tokens)
		require.InEpsilon(t, 0.5, *out.TotalUSD, 1e-9)
		link := whole.Content[1].(*mcp.ResourceLink)
		require.Equal(t, "conclave://"+out.SessionID+"/answer", link.URI)
		synctest.Wait()
		require.Equal(t, []string{"session_id " + out.SessionID, "agent_a answered agent1.1", "agent_b voted for agent1.1"}, reported)

		read, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: link.URI})
		require.NoError(t, err)
		require.Equal(t, "Tabs.", read.Contents[0].Text)
		require.Equal(t, "private", read.CacheScope)
	})
}

// A client that does not wait gets the session's ID and later the answer by this ID; nothing is
// started twice.
func TestAsk_handle(t *testing.T) {
	inBubble(t, access.Caller{}, Options{}, nil, func(t *testing.T, played *callers.Temporal, s *mcp.ClientSession) {
		out, whole := call[outcome](t, s, "ask_team", fields{"question": "Tabs?"})
		require.Equal(t, outcome{SessionID: out.SessionID, Status: workflows.Running}, out)
		require.Contains(t, textOf(whole), "session_result")
		begun := played.Begun(t)
		require.Equal(t, begun.ID, out.SessionID)
		again, _ := call[outcome](t, s, "session_result", fields{"session_id": out.SessionID, "wait_seconds": 0})
		require.Equal(t, workflows.Running, again.Status)
		begun.Decide("Spaces.", llm.Usage{})
		done, _ := call[outcome](t, s, "session_result", fields{"session_id": out.SessionID})
		require.Equal(t, "Spaces.", done.Answer)
		require.Equal(t, 1, played.Count())
	})
}

func TestAsk_refuses(t *testing.T) {
	inBubble(t, callers.Alice, Options{}, nil, func(t *testing.T, played *callers.Temporal, s *mcp.ClientSession) {
		missing := snapshot.Reference(strings.Repeat("0a", 32))
		for want, in := range map[string]fields{
			"the question is empty":                     {"question": " \n"},
			"you may ask: reviewers":                    {"question": "q"},
			"wait_seconds is -1; give 0 to 3600":        {"question": "q", "team": "reviewers", "wait_seconds": -1},
			"reads no directories of its clients":       {"question": "q", "team": "reviewers", "base": "."},
			`the base is "/etc", not the reference`:     {"question": "q", "team": "reviewers", "base": "/etc"},
			"which is not stored here; `conclave uploa": {"question": "q", "team": "reviewers", "base": missing},
			"the context docs is " + missing:            {"question": "q", "team": "reviewers", "context": []fields{{"name": "docs", "manifest": missing}}},
			"use a name without":                        {"question": "q", "team": "reviewers", "context": []fields{{"name": "a/b", "manifest": missing}}},
			`unexpected additional properties`:          {"question": "q", "agents": "mine"},
		} {
			require.Contains(t, refused(t, s, "ask_team", in), want)
		}
		require.Zero(t, played.Count())
	})
}

// A session without an answer is an error with a sentence and the command that continues it.
func TestResult_failed(t *testing.T) {
	inBubble(t, access.Caller{}, Options{}, nil, func(t *testing.T, played *callers.Temporal, s *mcp.ClientSession) {
		out, _ := call[outcome](t, s, "ask_team", fields{"question": "q", "wait_seconds": 0})
		played.Begun(t).End(sessionflow.Result{Status: "failed", Error: &artifact.Error{Message: "agent_a has no key"}})
		why := refused(t, s, "session_result", fields{"session_id": out.SessionID})
		require.Contains(t, why, "agent_a has no key; `conclave retry "+out.SessionID+"`")
		_, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: answerURI(out.SessionID)})
		require.ErrorContains(t, err, "without an answer")
	})
}

// An ID that does not exist, or belongs to another caller, is refused with a sentence.
func TestHandles(t *testing.T) {
	inBubble(t, callers.Alice, Options{}, nil, func(t *testing.T, played *callers.Temporal, s *mcp.ClientSession) {
		other, err := played.Desk(t).Start(t.Context(), access.Caller{Name: "bob"}, gateway.Question{Team: gateway.WorkersTeam("default")})
		require.NoError(t, err)
		for _, id := range []string{"never-given", other.ID, "../x", ""} {
			for _, tool := range []string{"session_status", "session_result", "session_diff", "decide_now"} {
				require.Contains(t, refused(t, s, tool, fields{"session_id": id}), "there is no session")
			}
			require.Contains(t, refused(t, s, "say", fields{"session_id": id, "text": "hello"}), "there is no session")
			for _, uri := range []string{answerURI(id), scheme + id + "/files/agent1.1/a.txt"} {
				_, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
				require.ErrorContains(t, err, "esource")
			}
		}
	})
}

func TestStatus(t *testing.T) {
	inBubble(t, access.Caller{}, Options{}, nil, func(t *testing.T, played *callers.Temporal, s *mcp.ClientSession) {
		out, _ := call[outcome](t, s, "ask_team", fields{"question": "q", "wait_seconds": 0})
		why := "a key is missing"
		played.Begun(t).Change(func(state *acts.State) {
			state.Status, state.Phase, state.Round, state.Parked = workflows.Running, "coordinating", 2, &why
			state.Cost = llm.Usage{InputTokens: 7, OutputTokens: 3}
			state.Agents = []coordination.AgentView{
				{ID: "agent_a", Status: "voted", LatestLabel: "agent1.1", Vote: &coordination.VoteView{Choice: coordination.Choice{TargetLabel: "agent2.1"}}},
				{ID: "agent_b", Status: "voted", Running: true, LatestLabel: "agent2.1", Vote: &coordination.VoteView{Choice: coordination.Choice{TargetLabel: "agent1.1"}, Stale: true}},
			}
		})
		got, _ := call[standing](t, s, "session_status", fields{"session_id": out.SessionID})
		require.Equal(t, standing{
			SessionID: out.SessionID, Status: workflows.Running, Phase: "coordinating", Round: 2, Parked: &why, Tokens: 10,
			Agents: []member{
				{ID: "agent_a", Status: "voted", Answer: "agent1.1", Vote: "agent2.1"},
				{ID: "agent_b", Status: "voted", Running: true, Answer: "agent2.1"}, // its vote is stale
			},
		}, got)
	})
}

// A client that gives up before the answer knows the session from the first progress message.
func TestAsk_givenUp(t *testing.T) {
	var reported []string
	progress := &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
		reported = append(reported, r.Params.Message)
	}}
	inBubble(t, access.Caller{}, Options{}, progress, func(t *testing.T, played *callers.Temporal, s *mcp.ClientSession) {
		ctx, giveUp := context.WithTimeout(t.Context(), 30*time.Second)
		defer giveUp()
		params := &mcp.CallToolParams{Name: "ask_team", Arguments: fields{"question": "Tabs?"}}
		params.SetProgressToken("p1")
		_, err := s.CallTool(ctx, params)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		begun := played.Begun(t)
		require.Equal(t, []string{"session_id " + begun.ID}, reported)
		begun.Decide("Tabs.", llm.Usage{})
		out, _ := call[outcome](t, s, "session_result", fields{"session_id": begun.ID})
		require.Equal(t, "Tabs.", out.Answer)
	})
}

// A late result says for whom the session waits.
func TestResult_late(t *testing.T) {
	inBubble(t, access.Caller{}, Options{}, nil, func(t *testing.T, played *callers.Temporal, s *mcp.ClientSession) {
		out, whole := call[outcome](t, s, "ask_team", fields{"question": "q", "wait_seconds": 0})
		require.Contains(t, textOf(whole), "The team is still at work in session "+out.SessionID+". Call session_result")
		begun := played.Begun(t)
		begun.Change(func(state *acts.State) { state.Status = workflows.Running })
		why := "a key is missing"
		begun.Change(func(state *acts.State) { state.Parked = &why })
		_, whole = call[outcome](t, s, "session_result", fields{"session_id": out.SessionID, "wait_seconds": 0})
		require.Contains(t, textOf(whole), "Session "+out.SessionID+" is parked: a key is missing. Call session_result")
		begun.Ask(llm.Usage{}, coordination.Call{ID: "c1", Name: "look"}, coordination.Call{ID: "c2", Name: "read"}, coordination.Call{ID: "c3", Name: "look"})
		out, whole = call[outcome](t, s, "session_result", fields{"session_id": out.SessionID, "wait_seconds": 0})
		require.Contains(t, textOf(whole), "waits for the results of tools (look, read) from the program that started it")
		require.Equal(t, string(coordination.PhaseWaitingForTools), out.Phase)
		standing, _ := call[standing](t, s, "session_status", fields{"session_id": out.SessionID})
		require.Equal(t, []string{"look", "read"}, standing.WaitsFor)
		begun.Silence()
		_, whole = call[outcome](t, s, "session_result", fields{"session_id": out.SessionID, "wait_seconds": 0})
		require.Contains(t, textOf(whole), "still at work", "its worker is away")
	})
}

// A session that waits for a person alone ends the wait for its answer, unless the client can ask its person, who is
// shown the whole question.
func TestResult_waitsForPerson(t *testing.T) {
	ask := func(begun *callers.Session) {
		begun.Change(func(state *acts.State) {
			state.Status, state.Phase = workflows.Running, coordination.PhaseWaitingForPerson
			state.Questions = []coordination.Question{{QuestionID: "q1", QuestionKind: coordination.AskApproval, Agent: "agent_a", Text: "May it run?", Tool: "send", Arguments: `{"to":"ann"}`}}
		})
	}
	t.Run("without", func(t *testing.T) {
		inBubble(t, access.Caller{}, Options{}, nil, func(t *testing.T, played *callers.Temporal, s *mcp.ClientSession) {
			_, _ = call[outcome](t, s, "ask_team", fields{"question": "q", "wait_seconds": 0})
			begun := played.Begun(t)
			ask(begun)
			out, whole := call[outcome](t, s, "session_result", fields{"session_id": begun.ID, "wait_seconds": 3600})
			require.Equal(t, "waiting_for_person", out.Phase)
			require.Contains(t, textOf(whole), `agent_a asks: May it run? {"to":"ann"}`)
		})
	})
	t.Run("with", func(t *testing.T) {
		shown := ""
		client := &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			shown = r.Params.Message
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"reply": true}}, nil
		}}
		inBubble(t, access.Caller{}, Options{}, nil, func(t *testing.T, played *callers.Temporal, s *mcp.ClientSession) {
			_, _ = call[outcome](t, s, "ask_team", fields{"question": "q", "wait_seconds": 0})
			begun := played.Begun(t)
			ask(begun)
			older := connect(t, played.Desk(t), access.Caller{}, Options{}, newClient(client), "2025-06-18") // later versions have no such requests
			_, _ = call[outcome](t, older, "session_result", fields{"session_id": begun.ID, "wait_seconds": 3})
			require.NoError(t, older.Close())
			allow := true
			require.Equal(t, callers.Update{Name: workflows.ApproveSignal, Args: []any{workflows.Request{Question: "q1", Allow: &allow}}}, begun.Updates()[0])
			require.Contains(t, shown, "agent_a asks: May it run?")
			require.Contains(t, shown, `{"to":"ann"}`)
		})
	})
}

func TestSteer(t *testing.T) {
	inBubble(t, access.Caller{}, Options{}, nil, func(t *testing.T, played *callers.Temporal, s *mcp.ClientSession) {
		out, _ := call[outcome](t, s, "ask_team", fields{"question": "q", "wait_seconds": 0})
		begun := played.Begun(t)
		said, _ := call[done](t, s, "say", fields{"session_id": out.SessionID, "text": "Go 1.24, please.", "agent": "agent_b"})
		require.True(t, said.Accepted)
		require.Equal(t, "session "+out.SessionID+" has no answers yet", refused(t, s, "session_diff", fields{"session_id": out.SessionID}))
		begun.Change(func(state *acts.State) { state.Status = workflows.Running })
		require.Contains(t, refused(t, s, "decide_now", fields{"session_id": out.SessionID}), "no agent of session "+out.SessionID+" has an answer yet")
		begun.Change(func(state *acts.State) {
			state.Agents = []coordination.AgentView{{ID: "agent_a"}, {ID: "agent_b", LatestLabel: "agent2.1"}}
		})
		_, _ = call[done](t, s, "decide_now", fields{"session_id": out.SessionID})
		require.Equal(t, []callers.Update{
			{Name: workflows.SaySignal, Args: []any{workflows.Request{Text: "Go 1.24, please.", Agent: "agent_b"}}}, {Name: workflows.FinishSignal},
		}, begun.Updates())
		begun.Refuse(temporal.NewNonRetryableApplicationError("there is no agent agent_z", "Refused", nil))
		require.Equal(t, "say: there is no agent agent_z", refused(t, s, "say", fields{"session_id": out.SessionID, "text": "x", "agent": "agent_z"}))
		begun.Decide("Done.", llm.Usage{})
		require.Contains(t, refused(t, s, "decide_now", fields{"session_id": out.SessionID}), "has ended (consensus)")
	})
}

// "." is the client's root if the client grants it, in versions of the protocol before and after
// the removal of requests from servers.
func TestAsk_root(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n"), 0o600))
	question := fields{"question": "q", "base": ".", "context": []fields{{"name": "mine", "manifest": "."}}, "wait_seconds": 0}
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			played := callers.New(t)
			d := played.Desk(t)
			client := newClient(nil)
			client.AddRoots(&mcp.Root{URI: "file://" + dir})
			s := connect(t, d, access.Caller{}, Options{Local: true}, client, version)
			out, whole := call[outcome](t, s, "ask_team", question)
			require.False(t, whole.IsError, "%v", whole.Content)
			begun := played.Begun(t)
			require.Equal(t, begun.ID, out.SessionID)
			require.Regexp(t, "^sha256:[0-9a-f]{64}$", begun.Input.Base)
			require.Equal(t, []artifact.Context{{Name: "mine", Manifest: begun.Input.Base}}, begun.Input.Context)
			require.NoError(t, d.CheckMaterial(t.Context(), begun.Input.Material))

			again, _ := call[outcome](t, s, "ask_team", fields{"question": "q", "base": begun.Input.Base, "wait_seconds": 0})
			require.Equal(t, begun.Input.Base, played.Begun(t).Input.Base, "the reference names the same files")
			require.NotEqual(t, out.SessionID, again.SessionID)

			client.AddRoots(&mcp.Root{URI: "file:///elsewhere"})
			require.Contains(t, refused(t, s, "ask_team", question), "of which the client grants 2")
			client.RemoveRoots("file:///elsewhere", "file://"+dir)
			require.Contains(t, refused(t, s, "ask_team", question), "of which the client grants 0")
			client.AddRoots(&mcp.Root{URI: "file://" + filepath.Join(dir, "main.go")})
			require.Contains(t, refused(t, s, "ask_team", question), "it is a file; name a directory")
			require.Equal(t, 2, played.Count())
		})
	}
}

// A picture is a file below the client's root, or a data URL.
func TestAsk_images(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, 2, 2))))
	for _, file := range []string{filepath.Join(dir, "lamp.png"), filepath.Join(outside, "other.png")} {
		require.NoError(t, os.WriteFile(file, b.Bytes(), 0o600))
	}
	require.NoError(t, os.Symlink(filepath.Join(outside, "other.png"), filepath.Join(dir, "link.png")))
	inline := "data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes())
	played := callers.New(t)
	d, client := played.Desk(t), newClient(nil)
	client.AddRoots(&mcp.Root{URI: "file://" + dir})
	s := connect(t, d, access.Caller{}, Options{Local: true}, client, "")
	ask := func(pictures ...string) fields {
		return fields{"question": "q", "images": pictures, "wait_seconds": 0}
	}
	_, whole := call[outcome](t, s, "ask_team", ask("lamp.png", filepath.Join(dir, "lamp.png"), inline))
	require.False(t, whole.IsError, "%v", whole.Content)
	begun := played.Begun(t).Input
	shown := begun.Images
	require.Len(t, shown, 3)
	require.Equal(t, []string{"01/lamp.png", "02/lamp.png", "03/picture-3"}, []string{shown[0].Path, shown[1].Path, shown[2].Path})
	require.Empty(t, begun.Base, "only the pictures are read")
	for picture, why := range map[string]string{
		"../" + filepath.Base(outside) + "/other.png": "escapes",
		filepath.Join(outside, "other.png"):           "escapes",
		"link.png":                                    "escapes",
		".":                                           "it is no file",
		"none.png":                                    "no such file",
		"data:image/png;base64,!":                     "illegal base64",
		"data:text/plain;base64,aGk=":                 "it is not a PNG",
	} {
		require.Contains(t, refused(t, s, "ask_team", ask(picture)), why, picture)
	}
	require.Equal(t, 1, played.Count())
	remote := connect(t, d, access.Caller{}, Options{}, client, "")
	require.Contains(t, refused(t, remote, "ask_team", ask("lamp.png")), "reads no directories of its clients")
}

func TestAsk_noRoots(t *testing.T) {
	without := &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}}
	inBubble(t, access.Caller{}, Options{Local: true}, without, func(t *testing.T, played *callers.Temporal, s *mcp.ClientSession) {
		why := refused(t, s, "ask_team", fields{"question": "q", "base": "."})
		require.Contains(t, why, "this client grants none; give the reference sha256:… that `conclave upload DIR` prints")
		require.Zero(t, played.Count())
	})
}

func TestRootOf(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"file:///home/me/a%20b": "/home/me/a b", "file://localhost/srv": "/srv",
		"https://example.com/x": "", "file://elsewhere/srv": "", "file:relative": "", "file:///%zz": "",
	} {
		dir, err := rootOf([]*mcp.Root{{URI: uri}})
		require.Equal(t, want, dir)
		if want == "" {
			require.ErrorContains(t, err, "a root is file:///DIR")
		}
	}
}

// The tools are served over HTTP without protocol sessions, to the caller admitted by the gate.
func TestHandler(t *testing.T) {
	t.Parallel()
	played := callers.New(t)
	gated, key := callers.Gate(t, callers.Alice, Handler(played.Desk(t), Options{Version: "1"}))
	server := httptest.NewServer(gated)
	t.Cleanup(server.Close)
	client := newClient(nil)
	client.AddRoots(&mcp.Root{URI: "file:///"})
	s, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: server.URL, DisableStandaloneSSE: true, HTTPClient: &http.Client{Transport: bearer(key)},
	}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	require.Contains(t, refused(t, s, "ask_team", fields{"question": "q"}), "you may ask: reviewers")
	require.Contains(t, refused(t, s, "ask_team", fields{"question": "q", "team": "reviewers", "base": "."}), "reads no directories")
	out, _ := call[outcome](t, s, "ask_team", fields{"question": "q", "team": "reviewers", "wait_seconds": 0})
	require.Equal(t, out.SessionID, played.Begun(t).ID)
	played.Leave(errors.New("no connection"))
	require.Contains(t, refused(t, s, "session_status", fields{"session_id": out.SessionID}), "no connection; send the request again")
}

// bearer sends a key with every request.
type bearer string

func (key bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(key))
	return http.DefaultTransport.RoundTrip(r)
}

// decode decodes a structured result into its own type.
func decode(t *testing.T, from, into any) {
	t.Helper()
	data, err := json.Marshal(from)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, into))
}

package cluster

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	sdkworker "go.temporal.io/sdk/worker"

	"conclave/activities/pipeline"
	"conclave/activities/scenario"
	"conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

func scrape(t *testing.T, m *Metrics, path string) (status int, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	m.httpRoutes().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func requireLines(t *testing.T, m *Metrics, lines ...string) {
	t.Helper()
	_, body := scrape(t, m, "/metrics")
	for _, line := range lines {
		require.Contains(t, strings.Split(body, "\n"), line)
	}
}

func ran[In, Out any](t *testing.T, m *Metrics, in In, out Out, err error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetWorkerOptions(sdkworker.Options{Interceptors: []interceptor.WorkerInterceptor{m.Interceptor()}})
	activity := func(context.Context, In) (Out, error) { return out, err }
	env.RegisterActivity(activity)
	_, got := env.ExecuteActivity(activity, in)
	require.Equal(t, err == nil, got == nil, "%v", got)
}

// A counter of a team begins at 0, so that its first increase is seen.
func TestTeams_beginAtZero(t *testing.T) {
	t.Parallel()
	m := NewMetrics("v1")
	m.Teams([]string{"reviewers"})
	requireLines(t, m, `conclave_sessions_started_total{team="reviewers"} 0`, `conclave_sessions_ended_total{status="failed",team="(own)"} 0`,
		`conclave_steps_resumed_total{kind="scenario"} 0`, `conclave_model_calls_repaid_total{kind="session"} 0`, `conclave_votes_stale_total{team="reviewers"} 0`)
	m.Model("cloud", "gpt", answering{})
	requireLines(t, m, `conclave_model_calls_total{model="gpt",outcome="ok",provider="cloud"} 0`, `conclave_model_cache_hits_total{model="gpt",provider="cloud"} 0`)
}

// votes has two votes, one of which is stale, and a replaced one.
func votes() session.State {
	view := coordination.View{Superseded: 1, Agents: []coordination.AgentView{
		{ID: "a", Vote: &coordination.VoteView{Stale: true}}, {ID: "b", Vote: &coordination.VoteView{}}, {ID: "c"},
	}}
	return session.State{View: view, Status: "consensus"}
}

func TestInterceptor_countsSessionsAndSteps(t *testing.T) {
	t.Parallel()
	m := NewMetrics("v1")
	ran(t, m, session.PrepareInput{Session: "s1"}, session.Prepared{Team: "default"}, nil)
	ran(t, m, session.PrepareInput{Session: "s2"}, session.Prepared{}, nil)
	ran(t, m, session.PrepareInput{Session: "s3"}, session.Prepared{}, errors.New("refused"))
	ran(t, m, session.ReopenInput{}, session.Reopening{}, nil)
	ran(t, m, pipeline.ReopenInput{}, pipeline.Reopening{}, nil)
	ran(t, m, session.StepInput{}, session.StepResult{}, nil)
	ran(t, m, session.StepInput{}, session.StepResult{}, temporal.NewApplicationError("busy", "RateLimited"))
	ran(t, m, pipeline.StepInput{}, pipeline.StepResult{}, temporal.NewNonRetryableApplicationError("no", "BadRequest", nil))
	ran(t, m, scenario.StepInput{}, scenario.StepResult{}, nil)
	ran(t, m, session.RecordInput{
		Team: "default", Entries: []coordination.Accepted{{Action: coordination.Vote}, {Action: coordination.NewAnswer}},
		Events: []coordination.Entry{{Kind: coordination.EntryInjected}, {Kind: "answer"}}, Status: votes(),
	}, struct{}{}, nil)
	requireLines(t, m, `conclave_votes_total{team="default"} 1`, `conclave_updates_injected_total{team="default"} 1`)
	_, body := scrape(t, m, "/metrics")
	require.NotContains(t, body, "conclave_votes_stale_total", "they are known at the end")

	saved := &session.Saved{Prepared: session.Prepared{CreatedAt: time.Now().Add(-time.Minute)}}
	ran(t, m, session.RecordInput{Team: "default", Over: true, Status: votes(), Saved: saved}, struct{}{}, nil)
	ran(t, m, pipeline.RecordInput{Status: pipeline.State{Status: "running"}}, struct{}{}, nil)
	ran(t, m, pipeline.RecordInput{Over: true, Status: pipeline.State{Status: "completed"}}, struct{}{}, nil)
	now := time.Now()
	ran(t, m, scenario.RecordInput{Result: scenario.Result{Status: "pass", CompletedAt: &now}}, scenario.Recorded{}, nil)
	requireLines(t, m,
		`conclave_sessions_started_total{team="default"} 1`, `conclave_sessions_started_total{team="(own)"} 1`,
		`conclave_sessions_ended_total{status="consensus",team="default"} 1`, `conclave_session_seconds_count{status="consensus"} 1`,
		`conclave_session_seconds_bucket{status="consensus",le="30"} 0`, `conclave_session_seconds_bucket{status="consensus",le="120"} 1`,
		`conclave_votes_stale_total{team="default"} 2`,
		`conclave_sessions_resumed_total{kind="session"} 1`, `conclave_sessions_resumed_total{kind="pipeline"} 1`,
		`conclave_runs_ended_total{kind="pipeline",status="completed"} 1`, `conclave_runs_ended_total{kind="scenario",status="pass"} 1`,
		`conclave_step_seconds_count{kind="session",outcome="done"} 1`, `conclave_step_seconds_count{kind="session",outcome="retried"} 1`,
		`conclave_step_seconds_count{kind="pipeline",outcome="failed"} 1`, `conclave_step_seconds_count{kind="scenario",outcome="done"} 1`,
	)
}

// answering is a model with a prepared reply.
type answering struct {
	reply llm.Reply
	err   error
}

func (a answering) Generate(context.Context, llm.Request) (llm.Reply, error) { return a.reply, a.err }

func TestModel_countsCalls(t *testing.T) {
	t.Parallel()
	m := NewMetrics("v1")
	call := func(reply llm.Usage, err error) {
		_, got := m.Model("cloud", "gpt", answering{llm.Reply{Usage: reply}, err}).Generate(t.Context(), llm.Request{})
		require.Equal(t, err, got)
	}
	dollars := 0.25
	call(llm.Usage{InputTokens: 10, CachedInputTokens: 4, OutputTokens: 3, ReasoningTokens: 1, ModelCalls: 1, TotalUSD: &dollars}, nil)
	call(llm.Usage{InputTokens: 5, OutputTokens: 2, ModelCalls: 1}, nil)
	call(llm.Usage{}, &llm.Error{Kind: llm.RateLimited, Message: "slower"})
	call(llm.Usage{}, context.Canceled)
	call(llm.Usage{}, io.ErrUnexpectedEOF)
	stopped, stop := context.WithCancelCause(t.Context())
	stop(errors.New("the worker stops"))
	_, err := m.Model("cloud", "gpt", answering{err: context.Cause(stopped)}).Generate(stopped, llm.Request{})
	require.Error(t, err)
	requireLines(t, m,
		`conclave_model_calls_total{model="gpt",outcome="ok",provider="cloud"} 2`,
		`conclave_model_calls_total{model="gpt",outcome="RateLimited",provider="cloud"} 1`,
		`conclave_model_calls_total{model="gpt",outcome="Cancelled",provider="cloud"} 2`,
		`conclave_model_calls_total{model="gpt",outcome="other",provider="cloud"} 1`,
		`conclave_model_call_seconds_count{model="gpt",provider="cloud"} 6`,
		`conclave_model_tokens_total{model="gpt",provider="cloud",type="input"} 15`,
		`conclave_model_tokens_total{model="gpt",provider="cloud",type="cached_input"} 4`,
		`conclave_model_tokens_total{model="gpt",provider="cloud",type="output"} 5`,
		`conclave_model_tokens_total{model="gpt",provider="cloud",type="reasoning"} 1`,
		`conclave_model_cost_usd_total{model="gpt",provider="cloud"} 0.25`,
		`conclave_model_unpriced_calls_total{model="gpt",provider="cloud"} 1`,
		`conclave_model_cache_hits_total{model="gpt",provider="cloud"} 1`,
	)
}

// Sessions name models: a hostile one must not fill the memory of Prometheus.
func TestModel_labelsAreBounded(t *testing.T) {
	t.Parallel()
	m := NewMetrics("v1")
	for i := range maxModels + 20 {
		_, err := m.Model("cloud", "model-"+strings.Repeat("x", i), answering{}).Generate(t.Context(), llm.Request{})
		require.NoError(t, err)
	}
	_, body := scrape(t, m, "/metrics")
	require.Equal(t, maxModels+1, strings.Count(body, "conclave_model_calls_total{"))
	requireLines(t, m, `conclave_model_calls_total{model="other",outcome="ok",provider="cloud"} 20`)
}

func TestMetrics_nilDoesNothing(t *testing.T) {
	t.Parallel()
	var m *Metrics
	var model loop.Model = answering{}
	require.Equal(t, model, m.Model("cloud", "gpt", model))
	require.Nil(t, m.Observer())
	require.Nil(t, m.Handler())
	m.Steps(nil)
	m.Sandbox("", nil)
	m.Ready(nil)
	m.Drain()
	m.Teams(nil)
}

// The SDK's metrics of one name may have different labels.
func TestHandler_collectsTheSDKsMetrics(t *testing.T) {
	t.Parallel()
	m := NewMetrics("v1")
	h := m.Handler().WithTags(map[string]string{"namespace": "default"})
	h.Counter("temporal_request").Inc(2)
	h.WithTags(map[string]string{"operation": "Poll"}).Counter("temporal_request").Inc(1)
	h.WithTags(map[string]string{"operation": "Poll"}).Counter("temporal_request").Inc(1)
	h.Gauge("temporal_num_pollers").Update(4)
	h.Timer("temporal_request_latency").Record(30 * time.Millisecond)
	requireLines(t, m,
		`temporal_request_total{namespace="default"} 2`, `temporal_request_total{namespace="default",operation="Poll"} 2`,
		`temporal_num_pollers{namespace="default"} 4`,
		`temporal_request_latency_seconds_bucket{namespace="default",le="0.01"} 0`, `temporal_request_latency_seconds_bucket{namespace="default",le="0.05"} 1`,
	)
}

func TestGauges_areReadWhenScraped(t *testing.T) {
	t.Parallel()
	m := NewMetrics("v1")
	m.Steps(func() map[coordination.DoingKind]int {
		return map[coordination.DoingKind]int{coordination.CallsModel: 2, coordination.Queued: 1, "": 3}
	})
	works := false
	m.Sandbox("full", func() bool { return works })
	requireLines(t, m, `conclave_steps_running{doing="model"} 2`, `conclave_steps_running{doing="tool"} 0`, `conclave_steps_running{doing="other"} 3`,
		`conclave_steps_waiting{reason="queue"} 1`, `conclave_steps_waiting{reason="outage"} 0`, `conclave_sandbox_level{level="full"} 0`)
	works = true
	requireLines(t, m, `conclave_sandbox_level{level="full"} 1`)
}

func TestReadyz_followsTheWorker(t *testing.T) {
	t.Parallel()
	m := NewMetrics("v1")
	ready := func(code int, text string) {
		t.Helper()
		status, body := scrape(t, m, "/readyz")
		require.Equal(t, code, status)
		require.Equal(t, text+"\n", body)
		status, _ = scrape(t, m, "/healthz")
		require.Equal(t, http.StatusOK, status)
	}
	ready(http.StatusServiceUnavailable, "starting")
	var problem error
	m.Ready(func(context.Context) error { return problem })
	ready(http.StatusOK, "ready")
	problem = errors.New("Temporal does not answer")
	ready(http.StatusServiceUnavailable, "Temporal does not answer")
	problem = nil
	m.Drain()
	ready(http.StatusServiceUnavailable, "stopping: running work is handed over")
}

func TestServe_refusesAPortInUse(t *testing.T) {
	t.Parallel()
	m := NewMetrics("v1")
	at, stop, err := m.Serve("127.0.0.1:0", slog.Default())
	require.NoError(t, err)
	defer stop()
	res, err := http.Get("http://" + at.String() + "/healthz")
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusOK, res.StatusCode)
	_, _, err = NewMetrics("v1").Serve(at.String(), slog.Default())
	require.ErrorContains(t, err, "serve metrics at "+at.String())
	require.ErrorContains(t, err, "set metrics_address to a free port of this host")
}

// documented matches a row of the table of metrics in docs/metrics.md.
var documented = regexp.MustCompile("(?m)^\\| `(conclave_[a-z0-9_]+)` \\| (counter|gauge|histogram) \\| ([^|]*) \\|")

// The documentation lists every metric that a worker serves, with its type and labels, and
// no other.
func TestDocs_listEveryMetric(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	docs := map[string]string{}
	for _, row := range documented.FindAllStringSubmatch(string(text), -1) {
		labels := strings.Fields(strings.NewReplacer("`", "", ",", "").Replace(row[3]))
		slices.Sort(labels)
		docs[row[1]] = row[2] + " " + strings.Join(labels, " ")
	}
	m := NewMetrics("v1")
	for _, v := range []*prometheus.CounterVec{
		m.started, m.ended, m.resumed, m.runs, m.injected, m.votes, m.stale, m.continued, m.repaid,
		m.calls, m.tokens, m.dollars, m.unpriced, m.cacheHits, m.requests,
	} {
		v.WithLabelValues(slices.Repeat([]string{"x"}, labels(v))...)
	}
	for _, v := range []*prometheus.HistogramVec{m.decision, m.steps, m.latency, m.requestLatency} {
		v.WithLabelValues(slices.Repeat([]string{"x"}, labels(v))...)
	}
	m.Steps(func() map[coordination.DoingKind]int { return map[coordination.DoingKind]int{} })
	m.Sandbox("full", func() bool { return true })
	require.Equal(t, docs, served(t, m))
}

func labels(v prometheus.Collector) int {
	descriptions := make(chan *prometheus.Desc, 1)
	v.Describe(descriptions)
	_, list, _ := strings.Cut((<-descriptions).String(), "variableLabels: {")
	return strings.Count(list, ",") + 1
}

// Parts of the text that Prometheus reads.
var (
	typeLine   = regexp.MustCompile(`(?m)^# TYPE (conclave_\S+) (\S+)$`)
	sampleLine = regexp.MustCompile(`(?m)^(conclave_[a-z0-9_]+?)(?:_bucket|_sum|_count)?\{(.*)\} `)
	labelName  = regexp.MustCompile(`([a-z_]+)="`)
)

// served returns the type and the labels of the metrics of conclave, by name.
func served(t *testing.T, m *Metrics) map[string]string {
	t.Helper()
	_, body := scrape(t, m, "/metrics")
	all := map[string]string{}
	for _, sample := range sampleLine.FindAllStringSubmatch(body, -1) {
		var names []string
		for _, label := range labelName.FindAllStringSubmatch(sample[2], -1) {
			if label[1] != "le" {
				names = append(names, label[1])
			}
		}
		slices.Sort(names)
		all[sample[1]] = strings.Join(names, " ")
	}
	for _, row := range typeLine.FindAllStringSubmatch(body, -1) {
		all[row[1]] = row[2] + " " + all[row[1]]
	}
	return all
}

package activities_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"conclave/activities"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// receiver collects what is posted to it.
type receiver struct {
	*httptest.Server
	headers []http.Header
	bodies  [][]byte
	reply   func(http.ResponseWriter, *http.Request) // nil to accept
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.headers, r.bodies = append(r.headers, req.Header), append(r.bodies, body)
		if r.reply != nil {
			r.reply(w, req)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// notifier returns a notifier whose receivers NOTIFY_URL and SLACK_URL are at an address.
func notifier(address string) *activities.Notifier {
	variables := map[string]string{"NOTIFY_URL": address, "SLACK_URL": address, "NOTIFY_SECRET": secret, "BAD_SECRET": "whsec_!"}
	return &activities.Notifier{
		Receivers: []activities.Receiver{
			{URLEnv: "NOTIFY_URL", SecretEnv: "NOTIFY_SECRET", Format: "standard"},
			{URLEnv: "SLACK_URL", Format: "slack"},
			{URLEnv: "UNSET_URL"},
			{URLEnv: "SLACK_URL", SecretEnv: "BAD_SECRET"},
		},
		Getenv: func(name string) string { return variables[name] },
		Redact: func(data []byte) []byte { return bytes.ReplaceAll(data, []byte("hunter2"), []byte("[redacted]")) },
	}
}

func delivery(to string) activities.Delivery {
	return activities.Delivery{ID: "notify/s1/" + to, Receiver: to, Page: "/sessions/s1", Notice: activities.Notice{
		Type: "decided", ID: "s1", Status: "consensus", Question: "Tabs?", Summary: "<b>Spaces</b> & \"hunter2\"", Link: "s3://bucket/sessions/s1/",
	}}
}

// The ecosystem's own library accepts a delivery, which has one ID in every attempt and no secret.
func TestDeliver_isSigned(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	n := notifier(r.URL)
	require.NoError(t, n.Deliver(t.Context(), delivery("NOTIFY_URL")))
	n.Pages = func() string { return "https://conclave.example.com/" }
	require.NoError(t, n.Deliver(t.Context(), delivery("NOTIFY_URL")))
	wh, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	for i, link := range []string{"s3://bucket/sessions/s1/", "https://conclave.example.com/sessions/s1"} {
		require.NoError(t, wh.Verify(r.bodies[i], r.headers[i]))
		require.Error(t, wh.Verify(append([]byte(" "), r.bodies[i]...), r.headers[i]))
		require.Equal(t, "application/json", r.headers[i].Get("Content-Type"))
		require.Regexp(t, `^msg_[0-9a-f]{32}$`, r.headers[i].Get("webhook-id"))
		var got map[string]any
		require.NoError(t, json.Unmarshal(r.bodies[i], &got))
		require.Equal(t, map[string]any{
			"type": "decided", "id": "s1", "status": "consensus", "question": "Tabs?", "summary": `<b>Spaces</b> & "[redacted]"`, "link": link,
		}, got)
	}
	require.Equal(t, r.headers[0].Get("webhook-id"), r.headers[1].Get("webhook-id"))
}

func TestDeliver_slack(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	require.NoError(t, notifier(r.URL).Deliver(t.Context(), delivery("SLACK_URL")))
	var got map[string]string
	require.NoError(t, json.Unmarshal(r.bodies[0], &got))
	require.Equal(t, map[string]string{
		"text": "*decided* s1 (consensus)\n&gt; Tabs?\n&lt;b&gt;Spaces&lt;/b&gt; &amp; \"[redacted]\"\ns3://bucket/sessions/s1/",
	}, got)
	require.Empty(t, r.headers[0].Get("webhook-signature"))
}

// A redirect is a failure, and leads nowhere.
func TestDeliver_followsNoRedirect(t *testing.T) {
	t.Parallel()
	elsewhere, r := newReceiver(t), newReceiver(t)
	r.reply = func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, elsewhere.URL, http.StatusTemporaryRedirect)
	}
	require.ErrorContains(t, notifier(r.URL).Deliver(t.Context(), delivery("NOTIFY_URL")), "307 Temporary Redirect")
	require.Empty(t, elsewhere.bodies)
}

func TestDeliver_failures(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	r.reply = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }
	err := notifier(r.URL).Deliver(t.Context(), delivery("NOTIFY_URL"))
	var final *temporal.ApplicationError
	require.ErrorAs(t, err, &final)
	require.True(t, final.NonRetryable(), "the receiver asks for nothing more")

	for to, want := range map[string]string{"UNSET_URL": "UNSET_URL holds no http", "AWS_SECRET_ACCESS_KEY": "no receiver"} {
		err := notifier(r.URL).Deliver(t.Context(), delivery(to))
		require.ErrorContains(t, err, want)
		require.ErrorAs(t, err, &final)
		require.False(t, final.NonRetryable(), "another worker may have it")
	}
	bad := notifier(r.URL)
	bad.Receivers = bad.Receivers[3:]
	err = bad.Deliver(t.Context(), delivery("SLACK_URL"))
	require.ErrorContains(t, err, "BAD_SECRET: it holds no secret of the form whsec_")

	r.Close()
	err = notifier(r.URL+"/T0/very-secret-path").Deliver(t.Context(), delivery("NOTIFY_URL"))
	require.ErrorContains(t, err, "refused")
	require.NotContains(t, err.Error(), "very-secret-path")
}

// A receiver that accepts the connection and says nothing ends with its attempt.
func TestDeliver_hangingReceiver(t *testing.T) {
	t.Parallel()
	r, arrived, end := newReceiver(t), make(chan struct{}), make(chan struct{})
	r.reply = func(http.ResponseWriter, *http.Request) { close(arrived); <-end }
	t.Cleanup(func() { close(end) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	go func() { <-arrived; cancel() }()
	require.ErrorIs(t, notifier(r.URL).Deliver(ctx, delivery("NOTIFY_URL")), context.Canceled)
}

// A worker that is asked to stop does not wait for a receiver that hangs.
func TestDeliver_isCutWhenItsWorkerStops(t *testing.T) {
	t.Parallel()
	r, stop, end := newReceiver(t), make(chan struct{}), make(chan struct{})
	r.reply = func(http.ResponseWriter, *http.Request) { close(stop); <-end }
	t.Cleanup(func() { close(end) })
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetWorkerStopChannel(stop)
	notifier(r.URL).RegisterSteps(env)
	_, err := env.ExecuteActivity("Deliver", delivery("NOTIFY_URL"))
	var cut *temporal.ApplicationError
	require.ErrorAs(t, err, &cut)
	require.False(t, cut.NonRetryable())
	require.Contains(t, cut.Error(), "tell the receiver of NOTIFY_URL: context canceled")
}

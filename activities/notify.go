package activities

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"conclave/engine/text"
)

// Types of notices.
const (
	NoticeDecided = "decided" // the run has ended with a result
	NoticeAsked   = "asked"   // an agent asks a person
	NoticeParked  = "parked"  // the run waits for a person to mend something
	NoticeFailed  = "failed"  // the run has ended without a result
	NoticeBudget  = "budget"  // the run has ended because its budget was spent
)

// NoticeTypes lists the types of notices.
func NoticeTypes() []string {
	return []string{NoticeDecided, NoticeAsked, NoticeParked, NoticeFailed, NoticeBudget}
}

// slackFormat is the format of Slack's incoming webhooks.
const slackFormat = "slack"

// Receiver is an address of the operator at which notices about runs arrive. URLEnv names it.
type Receiver struct {
	URLEnv    string   `json:"url_env" doc:"Name of the worker's environment variable that holds the address to which notices are posted; no other receiver has it."`
	SecretEnv string   `json:"secret_env,omitempty" doc:"Name of the worker's environment variable that holds the secret, whsec_ and base64, with which notices are signed as the Standard Webhooks specification says. Without it they are not signed."`
	Events    []string `json:"events,omitempty" doc:"What the receiver is told: decided, asked, parked, failed, budget; without it everything."`
	Format    string   `json:"format" default:"standard" enum:"standard,slack" doc:"standard: a JSON object with type, id, status, question, summary and link; slack: a message for an incoming webhook of Slack."`
}

// Choose returns the first of the types of which the receiver is told, or "".
func (r Receiver) Choose(types []string) string {
	for _, t := range types {
		if len(r.Events) == 0 || slices.Contains(r.Events, t) {
			return t
		}
	}
	return ""
}

// Notice tells a receiver about a run.
type Notice struct {
	Type     string `json:"type"`
	ID       string `json:"id"` // ID of the run
	Status   string `json:"status"`
	Question string `json:"question,omitempty"` // the question of the run or, if it asks a person, that one
	Summary  string `json:"summary"`
	Link     string `json:"link"` // address of its page or, if no pages are known, of its files
}

// Delivery is a notice to one receiver.
type Delivery struct {
	ID       string `json:"id"`       // unique ID of the delivery
	Receiver string `json:"receiver"` // the receiver's URLEnv
	Notice   Notice `json:"notice"`
	Page     string `json:"page"` // path of the run's page
}

// Notifier has the activity that delivers notices.
type Notifier struct {
	Receivers []Receiver
	Getenv    func(string) string // nil for os.Getenv
	Pages     func() string       // returns the address of the pages of runs, or ""; may be nil
	Redact    func([]byte) []byte // removes secrets; may be nil
}

// RegisterSteps registers the activity with the workers that have the receivers' addresses.
func (n *Notifier) RegisterSteps(r worker.ActivityRegistry) { r.RegisterActivity(n.Deliver) }

// deliverTime bounds one attempt at a delivery.
const deliverTime = 15 * time.Second

// Deliver posts a notice. It follows no redirects, and a receiver that replies 410 is not tried again.
func (n *Notifier) Deliver(ctx context.Context, d Delivery) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if activity.IsActivity(ctx) {
		go cutAtStop(ctx, cancel)
	}
	req, err := n.newRequest(ctx, d)
	if err != nil {
		return Elsewhere(&LackError{Type: NoReceiver, Err: err})
	}
	client := http.Client{Timeout: deliverTime, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		if hidden, ok := errors.AsType[*url.Error](err); ok { // the address may be a secret
			err = hidden.Err
		}
		return fmt.Errorf("tell the receiver of %s: %w", d.Receiver, err)
	}
	_ = res.Body.Close()
	switch {
	case res.StatusCode == http.StatusGone:
		return temporal.NewNonRetryableApplicationError("the receiver of "+d.Receiver+" is gone (410): remove it from notify", NoReceiver, nil)
	case res.StatusCode >= http.StatusMultipleChoices:
		return fmt.Errorf("tell the receiver of %s: it replied %s; redirects are not followed, and only 2xx is accepted", d.Receiver, res.Status)
	}
	return nil
}

// cutAtStop cancels a delivery soon after its worker was asked to stop, so that no command waits for a receiver
// that hangs. Another worker repeats it.
func cutAtStop(ctx context.Context, cancel func()) {
	const soon = 2 * time.Second
	select {
	case <-ctx.Done():
	case <-activity.GetWorkerStopChannel(ctx):
		time.AfterFunc(soon, cancel)
	}
}

// newRequest returns the signed request of a delivery. Its ID is the same in every attempt.
func (n *Notifier) newRequest(ctx context.Context, d Delivery) (*http.Request, error) {
	i := slices.IndexFunc(n.Receivers, func(r Receiver) bool { return r.URLEnv == d.Receiver })
	if i < 0 {
		return nil, fmt.Errorf("this worker has no receiver %.80q; add it to notify in its configuration", d.Receiver)
	}
	r, getenv := n.Receivers[i], n.Getenv
	if getenv == nil {
		getenv = os.Getenv
	}
	if u, err := url.Parse(getenv(r.URLEnv)); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("the environment variable %s holds no http or https address; set it for the worker", r.URLEnv)
	}
	body, err := n.encodeNotice(r.Format, d)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, getenv(r.URLEnv), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("the environment variable %s holds no address", r.URLEnv)
	}
	sum := sha256.Sum256([]byte(d.ID))
	id, stamp := "msg_"+hex.EncodeToString(sum[:16]), strconv.FormatInt(time.Now().Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "conclave")
	req.Header.Set("webhook-id", id)
	req.Header.Set("webhook-timestamp", stamp)
	if r.SecretEnv != "" {
		signature, err := SignWebhook(getenv(r.SecretEnv), id, stamp, body)
		if err != nil {
			return nil, fmt.Errorf("the environment variable %s: %w", r.SecretEnv, err)
		}
		req.Header.Set("webhook-signature", signature)
	}
	return req, nil
}

// encodeNotice returns the body of a delivery, without secrets.
func (n *Notifier) encodeNotice(format string, d Delivery) ([]byte, error) {
	if n.Pages != nil && n.Pages() != "" {
		d.Notice.Link = strings.TrimSuffix(n.Pages(), "/") + d.Page
	}
	var document any = d.Notice
	if format == slackFormat {
		escaped := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;") // all that Slack reads as markup of its own
		lines := fmt.Sprintf("*%s* %s (%s)\n", d.Notice.Type, d.Notice.ID, d.Notice.Status)
		if d.Notice.Question != "" {
			lines += "> " + text.OneLine(d.Notice.Question) + "\n"
		}
		document = map[string]string{"text": escaped.Replace(lines + d.Notice.Summary + "\n" + d.Notice.Link)}
	}
	body, err := json.Marshal(document)
	if err == nil && n.Redact != nil {
		body, err = text.RedactJSON(body, n.Redact)
	}
	return body, err
}

// SignWebhook returns the signature of a message according to the Standard Webhooks specification. The
// secret is base64, with or without the prefix whsec_.
func SignWebhook(secret, id, stamp string, body []byte) (string, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || len(key) == 0 {
		return "", errors.New("it holds no secret of the form whsec_ and base64; set it to one")
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.", id, stamp)
	_, _ = mac.Write(body) // a hash never fails
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)), nil
}

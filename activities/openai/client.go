package openai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	anthropic "github.com/anthropics/anthropic-sdk-go"
	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"conclave/engine/llm"
	"conclave/engine/text"
)

// Options configures a Client.
type Options struct {
	BaseURL string // http or https, up to and including /v1
	APIKey  string // sent to BaseURL only; empty sends no Authorization header
	Model   string
	Wire    Wire // the form of requests; empty is ChatWire

	KeyHeader string // the header that carries APIKey unchanged; empty for a bearer token in Authorization

	// Params is added unchanged to the top level of requests. Its value stream is a boolean; the
	// default is true.
	Params map[string]any

	// NativeList lists models by the service's own API, Anthropic's, which has other headers.
	NativeList bool

	NoStreamOptions bool // whether requests omit stream_options
	ShortCallIDs    bool // send IDs of tool calls as nine letters and digits

	// SilentTimeout bounds the time until the first content of a reply; 0 means ten minutes.
	SilentTimeout time.Duration

	// HTTPClient sends the requests; redirects are never followed. If nil, http.DefaultClient is
	// used.
	HTTPClient *http.Client

	// Price returns the cost of a usage in US dollars if the server does not state it. If nil, the
	// price is unknown.
	Price func(llm.Usage) float64

	// Waiting is called before each wait with its reason and its end, which is zero if unknown. The
	// last over that it returned is called when a later try is accepted or has lasted some seconds,
	// or when the call has failed. Waiting may be nil.
	Waiting func(ctx context.Context, failed *llm.Error, until time.Time) (over func())

	// Replying is called when a response without an error begins. It may be nil.
	Replying func(ctx context.Context)

	// Patience bounds the retries while the server is away. responded is true if the server has
	// sent a status. If nil, the bound is a minute.
	Patience func(ctx context.Context, responded bool) time.Duration

	// Images is "false" if no request has images, and "true" if a refusal of them is an error.
	Images string

	// Stagger spreads first requests with equal beginnings; nil sends them at once.
	Stagger *Stagger

	// Refusals and Outages may be shared with other clients. If nil, the client has its own.
	Refusals *Refusals
	Outages  *Outages
}

// Client is one model at one provider. It is safe for concurrent use.
type Client struct {
	options  Options // with defaults; its Params lack stream
	chat     sdk.ChatCompletionService
	messages *anthropic.Client // nil unless the wire is Messages

	responses responses.ResponseService
	models    sdk.ModelService
	host      string
	origin    string         // scheme and host of the address
	redactor  *text.Redactor // removes the key from errors

	server server
	wanted parts
	own    *Refusals // refusals of images and schemas; not shared, because one may concern a single image
}

// New validates the options and returns a Client. It does not use the network.
func New(o Options) (*Client, error) {
	base, err := url.Parse(o.BaseURL)
	switch {
	case err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https":
		return nil, errors.New("base_url of the model is not an http(s) URL; give one such as https://api.openai.com/v1")
	case base.User != nil:
		return nil, fmt.Errorf("base_url for %s contains credentials; name the key's variable in api_key_env instead", base.Host)
	case o.Model == "":
		return nil, fmt.Errorf("no model named for %s; set model", base.Host)
	}
	params, wanted, err := o.requestParams()
	if err != nil {
		return nil, err
	}
	var native *anthropic.Client
	switch o.Wire {
	case MessagesWire:
		native, wanted = o.newMessages(), wanted&^(usagePart|formPart)
	case ResponsesWire:
		wanted = wanted&^usagePart | includePart
	case ChatWire, "":
	default:
		return nil, fmt.Errorf("the wire of model %s is %q: give chat, responses or messages", o.Model, o.Wire)
	}
	if err := o.checkParams(); err != nil {
		return nil, err
	}
	options := []option.RequestOption{
		option.WithBaseURL(o.BaseURL),
		o.keyOption(),
		option.WithMaxRetries(0),
		option.WithHTTPClient(httpClient(o.HTTPClient)),
	}
	o.Params, o.SilentTimeout = params, cmp.Or(o.SilentTimeout, silentTimeout)
	o.Refusals, o.Outages = cmp.Or(o.Refusals, &Refusals{}), cmp.Or(o.Outages, &Outages{})
	return &Client{
		options: o, messages: native, responses: responses.NewResponseService(options...), chat: sdk.NewChatCompletionService(options...), models: sdk.NewModelService(options...),
		host: base.Host, origin: base.Scheme + "://" + base.Host, redactor: newRedactor(o.APIKey),
		server: server{o.BaseURL, o.Model}, wanted: wanted, own: &Refusals{},
	}, nil
}

func (o Options) keyOption() option.RequestOption {
	if o.KeyHeader == "" || o.APIKey == "" {
		return option.WithAPIKey(o.APIKey)
	}
	return option.WithHeader(o.KeyHeader, o.APIKey)
}

// requestParams returns the params without stream, and the optional parts to send in requests.
func (o Options) requestParams() (map[string]any, parts, error) {
	wanted := streamPart | usagePart | thoughtsPart | imagesPart | formPart | toolsPart | schemaPart
	if o.NoStreamOptions {
		wanted &^= usagePart
	}
	if o.Images == "false" {
		wanted &^= imagesPart
	}
	switch value := o.Params["stream"].(type) {
	case nil:
	case bool:
		if !value {
			wanted &^= streamPart | usagePart
		}
	default:
		return nil, 0, fmt.Errorf("stream in params of model %s is neither true nor false", o.Model)
	}
	params := maps.Clone(o.Params)
	delete(params, "stream")
	return params, wanted, nil
}

// httpClient returns a client that does not follow redirects, because the key must not be sent to
// another host.
func httpClient(given *http.Client) *http.Client {
	client := *cmp.Or(given, http.DefaultClient)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client
}

// Generate makes one model call. While the provider limits requests, is overloaded or cannot be
// reached, Generate retries for about a minute. Its errors are *llm.Error or the cause of ctx. The
// returned usage includes failed requests, even if there is an error.
func (c *Client) Generate(ctx context.Context, req llm.Request) (llm.Reply, error) {
	w := &wait{waiting: c.options.Waiting}
	defer w.end()
	away := func(failed *llm.Error) { w.begin(ctx, failed, time.Time{}) }
	return c.retryCall(ctx, w, func() (llm.Reply, error) {
		return c.options.Outages.callInTurn(ctx, c, away, func(ctx context.Context, responded func(status int)) (llm.Reply, error) {
			w.startTry()
			return c.sendRequest(ctx, req, func(status int) {
				if status < 400 {
					w.end()
					if c.options.Replying != nil {
						c.options.Replying(ctx)
					}
				}
				responded(status)
			})
		})
	})
}

// sendRequest repeats a request at once without the optional parts that the server refuses.
func (c *Client) sendRequest(ctx context.Context, req llm.Request, responded func(status int)) (llm.Reply, error) {
	wanted := c.wanted &^ c.options.Refusals.partsOf(c.server) &^ c.own.partsOf(c.server)
	begun := c.options.Stagger.enter(ctx, c.server, req)
	defer begun()
	var spent llm.Usage // includes streams that were refused after they had begun
	for sent := wanted; ; {
		reply, err := c.callServer(ctx, req, sent, func(status int) {
			if status < 400 {
				begun()
			}
			responded(status)
		})
		spent = spent.Add(c.withCost(reply.Usage))
		reply.Usage = spent
		part := sent.refusedBy(err, req)
		if part != 0 && (part != imagesPart || c.options.Images != "true") {
			sent &^= part
			continue
		}
		if err == nil {
			c.rememberRefused(wanted &^ sent)
		}
		return reply, err
	}
}

func reportStatus(responded func(status int)) option.Middleware {
	return func(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		res, err := next(req)
		if err == nil {
			responded(res.StatusCode)
		}
		return res, err
	}
}

func (c *Client) withCost(u llm.Usage) llm.Usage {
	if u.TotalUSD == nil && c.options.Price != nil && u.InputTokens+u.OutputTokens > 0 {
		usd := c.options.Price(u)
		u.TotalUSD = &usd
	}
	return u
}

// depthHeader tells a model served by `conclave serve` at which depth its team is asked.
const depthHeader = "X-Conclave-Depth"

// callServer makes one HTTP request. It calls responded when the headers of the response arrive.
func (c *Client) callServer(ctx context.Context, req llm.Request, sent parts, responded func(status int)) (llm.Reply, error) {
	limited, w, release := newWatchdog(ctx, c.options.SilentTimeout)
	defer release()

	var res *http.Response
	err := c.post(limited, req, sent, &res, w.watchBody, reportStatus(responded))
	if res != nil && res.Body != nil {
		defer res.Body.Close()
	}
	var reply llm.Reply
	arrived := res != nil && (err == nil || res.StatusCode >= 400)
	switch {
	case arrived && (res.StatusCode < 200 || res.StatusCode > 299):
		// The SDK has read and restored the body of an error. If that failed, the body is empty.
		body, _ := io.ReadAll(res.Body)
		err = c.refusedError(res.StatusCode, res.Header, body)
	case err == nil:
		reply, err = c.readReply(res.Header, res.Body, req.MaxReply, w, llm.Said(ctx))
	}
	failed, classified := errors.AsType[*llm.Error](err)
	stall, stalled := errors.AsType[*stallError](context.Cause(limited))
	// The end of ctx comes first, because it makes every other error look like a fault of the server.
	switch {
	case err == nil:
		return reply, nil
	case ctx.Err() != nil:
		return llm.Reply{}, fmt.Errorf("call model %s at %s: %w", c.options.Model, c.host, context.Cause(ctx))
	case classified:
	case errors.Is(err, errTooLarge):
		failed = c.unusableError(err.Error(), err)
		failed.Overlong = req.MaxReply > 0
	case stalled:
		failed = c.newError(llm.Network, 0, stall.what, stall.remedy, stall)
	default:
		failed = c.unreachedError(err, res != nil)
	}
	if failed.Status == 0 && res != nil {
		failed.Status = res.StatusCode // the server responded but ended the connection
	}
	return reply, failed
}

// post sends one request in the form of the server.
func (c *Client) post(ctx context.Context, req llm.Request, sent parts, res **http.Response, watch ...middleware) error {
	if c.messages != nil {
		return c.postMessages(ctx, req, sent, res, watch...)
	}
	options := requestOptions(ctx, res, watch)
	if c.options.Wire == ResponsesWire {
		return c.postResponse(ctx, req, sent, options)
	}
	_, err := c.chat.New(ctx, c.newRequest(req, sent), options...)
	return err
}

// requestOptions returns the options of one request.
func requestOptions(ctx context.Context, res **http.Response, watch []middleware) []option.RequestOption {
	options := []option.RequestOption{option.WithHeader(depthHeader, strconv.Itoa(llm.Depth(ctx)+1)), option.WithResponseBodyInto(res)}
	for _, m := range watch {
		options = append(options, option.WithMiddleware(m))
	}
	return options
}

// Limits of one HTTP request. A server may be silent while its model writes a tool call.
const (
	silentTimeout  = 10 * time.Minute // default time without an event: a queue, a long prompt, hidden thoughts, keep-alives, or a response that is not a stream
	idleTimeout    = 3 * time.Minute  // time without a byte after the first of the reply
	closingTimeout = 10 * time.Second // time without a byte after the last of the reply
	totalTimeout   = 30 * time.Minute // extended by the excess of a configured limit of silence over silentTimeout

	maxBody = 32 << 20 // bytes of a response
)

var errTooLarge = fmt.Errorf("the response is larger than %d MiB", maxBody>>20)

const fasterModel = "use a faster model or server"

// stallError is the cause with which a watchdog cancels a request.
type stallError struct{ what, remedy string }

func (e *stallError) Error() string { return e.what }

type watchdog struct {
	silent, idle *time.Timer
	silentLimit  time.Duration // the duration of silent
	idleLimit    time.Duration // the duration of idle; 0 before the first byte of the reply
}

// newWatchdog returns the context of a request and its watchdog; release ends both. silent bounds
// the time without an event.
func newWatchdog(ctx context.Context, silent time.Duration) (limited context.Context, w *watchdog, release func()) {
	total := totalTimeout + max(0, silent-silentTimeout)
	ctx, stop := context.WithTimeoutCause(ctx, total, &stallError{fmt.Sprintf("no end of the response within %v", total), fasterModel})
	ctx, cancel := context.WithCancelCause(ctx)
	w = &watchdog{silentLimit: silent, silent: time.AfterFunc(silent, func() {
		cancel(&stallError{fmt.Sprintf("nothing of a reply for %v", silent), fasterModel + ", or raise silent_timeout_seconds"})
	})}
	w.idle = time.AfterFunc(total, func() {
		cancel(&stallError{"the response stalled", fasterModel})
	})
	return ctx, w, func() {
		w.silent.Stop()
		w.idle.Stop()
		cancel(nil)
		stop()
	}
}

// noteByte records the arrival of a byte, which may belong to a keep-alive comment.
func (w *watchdog) noteByte() {
	if w.idleLimit > 0 {
		w.idle.Reset(w.idleLimit)
	}
}

// noteEvent records an event and sets the time limit for the next byte. With 0, only the limit for
// silence applies.
func (w *watchdog) noteEvent(idleLimit time.Duration) {
	w.silent.Reset(w.silentLimit)
	w.idleLimit = idleLimit
	w.noteByte()
}

func (w *watchdog) watchBody(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	res, err := next(req)
	if res != nil && res.Body != nil {
		res.Body = &body{ReadCloser: res.Body, watchdog: w, left: maxBody}
	}
	return res, err
}

type body struct {
	io.ReadCloser
	watchdog *watchdog
	left     int
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left+1)])
	if n > 0 {
		b.watchdog.noteByte()
	}
	if n > b.left {
		return b.left, errTooLarge
	}
	b.left -= n
	return n, err
}

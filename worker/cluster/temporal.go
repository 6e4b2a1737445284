package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	sdklog "go.temporal.io/sdk/log"
)

// reachTimeout bounds how long an address may take to answer.
const reachTimeout = 8 * time.Second

// Options are what Temporal is reached with: the profile of the environment,
// address and namespace before it if they are not empty. Without any address ok
// is false, and the options are of no use.
func Options(address, namespace string) (o client.Options, ok bool, err error) {
	profile, err := envconfig.LoadClientConfigProfile(envconfig.LoadClientConfigProfileOptions{})
	if err != nil {
		return o, false, fmt.Errorf("read the Temporal client settings: %w; check TEMPORAL_* and temporal.toml", err)
	}
	if address != "" {
		profile.Address = address
	}
	if profile.Address == "" {
		return o, false, nil
	}
	if namespace != "" {
		profile.Namespace = namespace
	}
	o, err = profile.ToClientOptions(envconfig.ToClientOptionsRequest{})
	if err != nil {
		return o, false, fmt.Errorf("read the Temporal client settings: %w; check TEMPORAL_* and temporal.toml", err)
	}
	if o.Namespace == "" {
		o.Namespace = client.DefaultNamespace
	}
	return o, true, nil
}

// Dial connects to Temporal. The end of ctx is returned as it is. The client
// logs to logger.
func Dial(ctx context.Context, o client.Options, logger *slog.Logger) (client.Client, error) {
	o.Logger = sdklog.NewStructuredLogger(logger)
	dialing, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	c, err := client.DialContext(dialing, o)
	switch {
	case err == nil:
		return c, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, fmt.Errorf("connect to Temporal at %s, namespace %s: %w", o.HostPort, o.Namespace, err)
}

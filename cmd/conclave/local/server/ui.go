package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/temporalio/ui-server/v2/server/api"
	"github.com/temporalio/ui-server/v2/server/config"
	"github.com/temporalio/ui-server/v2/server/csrf"
	"github.com/temporalio/ui-server/v2/server/headers"
	"github.com/temporalio/ui-server/v2/server/route"
	"github.com/temporalio/ui-server/v2/ui"

	"conclave/worker/cluster"
)

// startUI serves the routes of the Web UI. The UI's own server does not check the Host
// header, even behind a proxy, so a website whose name resolves to 127.0.0.1 could use it.
func (s *servers) startUI(listener net.Listener) error {
	routes, err := uiRoutes(s.stack.TemporalAddress)
	if err != nil {
		return fmt.Errorf("assemble the Web UI: %w", err)
	}
	server := &http.Server{Handler: localOnly(routes), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.recordFailure("the Web UI", err)
		}
	}()
	s.stops = append(s.stops, func(context.Context) { _ = server.Close() })
	return nil
}

// uiRoutes assembles the handler from the parts of the UI's own server, so that localOnly can precede it.
func uiRoutes(temporalAddress string) (http.Handler, error) {
	settings, err := config.NewConfigProviderWithRefresh(&config.Config{
		TemporalGRPCAddress: temporalAddress,
		EnableUI:            true,
		DefaultNamespace:    namespaceName,
		DisableNewsFetch:    true,
		HideLogs:            true,
		// Browsers do not send secure cookies over HTTP.
		CORS: config.CORS{CookieInsecure: true},
	})
	if err != nil {
		return nil, err
	}
	assets, err := ui.Assets()
	if err != nil {
		return nil, err
	}
	local, err := fs.Sub(assets, "local")
	if err != nil {
		return nil, err
	}
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.Use(
		middleware.Recover(),
		middleware.Gzip(),
		middleware.Secure(),
		csrf.EnsureTokenCookie(false),
		middleware.CSRFWithConfig(csrf.MiddlewareConfig(settings, false)),
	)
	route.SetHealthRoute(e)
	if err := route.SetAPIRoutes(e, settings, []api.Middleware{headers.WithForwardHeaders([]string{"Caller-Type"})}); err != nil {
		return nil, err
	}
	if err := route.SetUIRoutes(e, "", local, settings); err != nil {
		return nil, err
	}
	route.SetRenderRoute(e, "/")
	return e, nil
}

// localOnly refuses other host names. Otherwise the scripts of a website whose name resolves
// to 127.0.0.1 could read and control everything.
func localOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !cluster.IsLoopback(r.Host) {
			http.Error(w, "this address answers to 127.0.0.1 and localhost only", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

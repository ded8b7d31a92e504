"""An OpenID provider for one user who agrees to everything: metadata (OpenID Connect Discovery and RFC 8414), dynamic
registration of public clients, the authorization code with PKCE, `resource` (RFC 8707), access tokens (RFC 9068, RS256), key set; and for the
console of a gateway, a client that was registered before and ID tokens (ES256).

    python provider.py --port PORT --subject ada [--grants "company:read company:write"] [--console-redirect URL]

Scopes that are not granted are left out of the token. What it was asked is told at /asked, for the trial.
"""

import argparse
import base64
import hashlib
import json
import secrets
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

TOKEN_SECONDS = 300
BODY_BYTES_MAX = 64 * 1024
ENTRIES_MAX = 1000


class Provider:
    def __init__(self, issuer, subject, grants, console_redirect=None):
        self.issuer, self.subject, self.grants = issuer, subject, set(grants.split())
        self.kid, self.key = "trial-1", rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.id_kid, self.id_key = "trial-2", ec.generate_private_key(ec.SECP256R1())
        self.clients, self.codes, self.asked = {}, {}, []
        if console_redirect:
            self.clients["console"] = {"client_id": "console", "redirect_uris": [console_redirect]}

    def metadata(self):
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "registration_endpoint": f"{self.issuer}/register",
            "jwks_uri": f"{self.issuer}/jwks",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
            "authorization_response_iss_parameter_supported": True,
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }

    def key_set(self):
        key = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
        id_key = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self.id_key.public_key()))
        return {"keys": [
            {**key, "kid": self.kid, "use": "sig", "alg": "RS256"},
            {**id_key, "kid": self.id_kid, "use": "sig", "alg": "ES256"},
        ]}

    def register(self, body):
        wanted = json.loads(body)
        client = {**wanted, "client_id": secrets.token_urlsafe(8), "token_endpoint_auth_method": "none"}
        assert len(self.clients) < ENTRIES_MAX
        self.clients[client["client_id"]] = client
        return client

    def authorize(self, query):
        """Where the user's browser is sent."""
        client = self.clients[query["client_id"]]
        assert query["redirect_uri"] in client["redirect_uris"] and query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256", "PKCE is not optional"
        self.asked.append({"scope": query.get("scope", ""), "resource": query.get("resource")})
        code = secrets.token_urlsafe(16)
        assert len(self.codes) < ENTRIES_MAX
        self.codes[code] = query
        answer = {"code": code, "iss": self.issuer}
        if "state" in query:
            answer["state"] = query["state"]
        return f"{query['redirect_uri']}?{urlencode(answer)}"

    def token(self, form):
        asked = self.codes.pop(form["code"])  # once
        assert form["grant_type"] == "authorization_code" and form["redirect_uri"] == asked["redirect_uri"]
        assert form["client_id"] == asked["client_id"]
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == asked["code_challenge"]
        assert form.get("resource") == asked.get("resource")
        scope = " ".join(scope for scope in asked.get("scope", "").split() if scope in self.grants)
        claims = {
            "iss": self.issuer,
            "aud": asked["resource"] if "openid" not in asked.get("scope", "").split() else f"{self.issuer}/userinfo",
            "sub": self.subject,
            "client_id": asked["client_id"],
            "iat": int(time.time()),
            "exp": int(time.time()) + TOKEN_SECONDS,
            "jti": secrets.token_urlsafe(12),
            "scope": scope,
            "groups": ["staff"],
        }
        token = jwt.encode(claims, self.key, algorithm="RS256", headers={"kid": self.kid, "typ": "at+jwt"})
        answer = {"access_token": token, "token_type": "Bearer", "expires_in": TOKEN_SECONDS, "scope": scope}
        if "openid" in asked.get("scope", "").split():
            answer["id_token"] = self.id_token(asked, token)
        return answer

    def id_token(self, asked, access_token):
        at_hash = hashlib.sha256(access_token.encode()).digest()[:16]
        claims = {
            "iss": self.issuer,
            "aud": asked["client_id"],
            "sub": self.subject,
            "iat": int(time.time()),
            "exp": int(time.time()) + TOKEN_SECONDS,
            "nonce": asked["nonce"],
            "at_hash": base64.urlsafe_b64encode(at_hash).rstrip(b"=").decode(),
            "groups": ["staff"],
        }
        if "max_age" in asked:
            claims["auth_time"] = int(time.time())
        return jwt.encode(claims, self.id_key, algorithm="ES256", headers={"kid": self.id_kid})


def handler(provider):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            url = urlsplit(self.path)
            documents = {
                "/.well-known/openid-configuration": provider.metadata,
                "/.well-known/oauth-authorization-server": provider.metadata,
                "/jwks": provider.key_set,
                "/asked": lambda: provider.asked,
            }
            if url.path in documents:
                return self.answer(200, documents[url.path]())
            if url.path != "/authorize":
                return self.answer(404, {"error": "not_found"})
            return self.guarded(lambda: self.redirect(provider.authorize(single(url.query))))

        def do_POST(self):
            body = self.rfile.read(min(int(self.headers.get("content-length", 0)), BODY_BYTES_MAX)).decode()
            if self.path == "/register":
                return self.guarded(lambda: self.answer(201, provider.register(body)))
            if self.path == "/token":
                return self.guarded(lambda: self.answer(200, provider.token(single(body))))
            return self.answer(404, {"error": "not_found"})

        def guarded(self, act):
            try:
                return act()
            except (AssertionError, KeyError, ValueError) as error:
                return self.answer(400, {"error": "invalid_request", "error_description": repr(error)})

        def redirect(self, location):
            self.send_response(302)
            self.send_header("location", location)
            self.send_header("content-length", "0")
            self.end_headers()

        def answer(self, status, document):
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("cache-control", "no-store")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass  # tokens and codes are in there

    return Handler


def single(query):
    return {name: values[0] for name, values in parse_qs(query).items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--subject", default="ada")
    parser.add_argument("--grants", default="")
    parser.add_argument("--console-redirect")
    options = parser.parse_args()
    issuer = f"http://127.0.0.1:{options.port}"
    server = ThreadingHTTPServer(("127.0.0.1", options.port), handler(Provider(issuer, options.subject, options.grants, options.console_redirect)))
    server.serve_forever()

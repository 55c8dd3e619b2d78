package endpoints

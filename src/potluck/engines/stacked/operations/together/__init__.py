"""What several clients compute together: by kernels where these fit, and else by PyTorch, client by client."""

"""What the admin's pages of a conversation cost, with a long history beside a short one."""
